#!/bin/bash
# justin-get-file.sh - a stand-in for justIN's: prints "DID PFN RSE" of the next file of $JUSTIN_FILES/files.
#
# $JUSTIN_FILES is a folder. Files that were given are in `given`, those that it printed in `told`, a line for each call
# in `calls`. Each call takes the first line of `modes`, if there is one: repeat (what was given first is given again), die
# (before a file is taken), lose (after that), hang, rubbish, lines, nothing.
cd "$JUSTIN_FILES" || exit 1
[ "$1" = --seconds-needed ] && [ "$2" -gt 0 ] && [ $# = 2 ] || { echo "usage: $0 --seconds-needed N" >&2; exit 2; }
exec 9>lock && flock 9
echo "$*" >>calls
mode=$(head -n 1 modes 2>/dev/null)
sed -i 1d modes 2>/dev/null
touch given
next=$(grep -vxFf given files | head -n 1)
case $mode in
repeat) head -n 1 given ;;
die) kill -9 $$ ;;
hang) exec 9>&-; exec sleep 600 ;;
rubbish) echo "Internal Server Error" ;;
lines) head -n 2 files ;;
nothing) ;;
*)
    [ -z "$next" ] || echo "$next" >>given
    [ "$mode" != lose ] || { echo "curl: (56) connection reset" >&2; exit 56; }
    [ -z "$next" ] || { echo "$next" && echo "$next" >>told; }
    ;;
esac
