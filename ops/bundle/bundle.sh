#!/bin/bash
# bundle.sh - a folder with wiremill and all that it needs: it runs from any path, read-only, on any Linux of its architecture.
#
# usage: ops/bundle/bundle.sh BUILD INSTALLED LAUNCHER FOLDER [ROOT]
# INSTALLED is what `make install` put somewhere. ROOT: a folder of tests/arm64.sh, for AArch64. In FOLDER:
#   bin/       launchers (launch.c), and the dynamic loader that they start programs with
#   libexec/   the programs, stripped
#   lib/       every library that they link, libc included; engines; openvino/, onnxruntime/
#   sdk/       libwiremill for programs of the host, its header, and links to what it links but for the C library
#   share/     manual pages, bash completion
#   licenses/  of wiremill, and of each package whose files are here, as the distribution states them; `files` names
#              which file came with which package
# Nothing of the host is used but its kernel, /proc and /dev.
set -eu -o pipefail
build=$1 installed=$2 launcher=$3 to=$4 root=${5:+$(readlink -f "$5")}
loader=$(readelf -l "$installed/bin/wiremill" | sed -n 's:.*interpreter\: /.*/\(.*\)\]:\1:p')
rm -rf "$to"
mkdir -p "$to/bin" "$to/libexec" "$to/lib" "$to/licenses"
files=$to/licenses/files
: >"$files"

if [ "$root" ]; then
    strip () { aarch64-linux-gnu-strip "$@"; }
    ldd ()
    {
        local name arrow path rest
        qemu-aarch64-static -L "$root" "$root/lib/$loader" --inhibit-cache --list "$1" | while read -r name arrow path rest; do
            [ ! -e "$root$path" ] || path=$root$path
            echo "$name $arrow $path $rest"
        done
    }
fi
# The packages that files of the system came with, asked for at once; a path may be known without /usr.
declare -A package
names_of () # file
{
    local name
    for name in "$1" "$(readlink -f "$1")"; do
        name=${name#"$root"}
        printf '%s\n' "$name" "${name#/usr}" "/usr$name"
    done
}
know_packages () # file...
{
    local names path line
    mapfile -t names < <(for path in "$@"; do names_of "$path"; done)
    while read -r line; do
        [[ $line == diversion* ]] || package[${line##*: }]=${line%%[:,]*}
    done < <(dpkg-query -S "${names[@]}" 2>/dev/null)
    [ -z "$root" ] || while read -r path line; do package[$path]=$line; done <"$root/.packages"
}
package_of () # file
{
    local name
    while read -r name; do
        [ -z "${package[$name]:-}" ] || { echo "${package[$name]}"; return; }
    done < <(names_of "$1")
    echo "bundle: no package has $1, so that its licence is not known" >&2
    return 1
}
# Keeps the licence of the package that a file came with.
license () # file, its name here
{
    local name terms
    name=$(package_of "$1")
    echo "$2 $name" >>"$files"
    for terms in {"$root",}"/usr/share/doc/$name/copyright"; do
        ! cp -L "$terms" "$to/licenses/$name.txt" 2>/dev/null || return 0
    done
    echo "bundle: $terms is missing" >&2
    return 1
}

programs=("$installed"/bin/wiremill*)
for program in "${programs[@]}"; do
    strip -o "$to/libexec/${program##*/}" "$program"
    cp "$launcher" "$to/bin/${program##*/}"
done
objects=("${programs[@]}")
# The licences of a general engine's libraries, as their wheel has them.
licences_of () # engine
{
    local library
    library=$(readlink -f "$build/lib/$1"/lib"$1"*.so* | head -n 1)
    case $1 in
    openvino) cp -r "${library%/*}"/../../openvino-*.dist-info/licenses/. "$to/licenses/openvino" ;;
    onnxruntime) cp "${library%/*}"/../{LICENSE,ThirdPartyNotices.txt} "$to/licenses/onnxruntime" ;;
    esac
}
general=()
for engine in openvino onnxruntime; do
    [ -e "$installed/lib/wm_$engine.so" ] || continue
    general+=("$engine")
    mkdir "$to/lib/$engine" "$to/licenses/$engine"
    strip -o "$to/lib/wm_$engine.so" "$installed/lib/wm_$engine.so"
    cp "$installed/lib/$engine"/* "$to/lib/$engine"
    licences_of "$engine"
    objects+=("$installed/lib/wm_$engine.so" "$installed/lib/$engine"/*)
done
# NVIDIA's driver is the host's, found where drivers lie (kernels/wm_driver.c).
if [ -e "$installed/lib/wm_cuda.so" ]; then
    strip -o "$to/lib/wm_cuda.so" "$installed/lib/wm_cuda.so"
    objects+=("$installed/lib/wm_cuda.so")
fi
for name in wm_python.so wm_torch.so; do # as they are: an archive lies behind them
    [ ! -e "$installed/lib/$name" ] || cp "$installed/lib/$name" "$to/lib"
done

# The library is for programs of the host, which must not find the C library of lib/.
library=$installed/lib/libwiremill.so.1 sdk=$to/sdk
mkdir -p "$sdk/lib/wiremill" "$sdk/lib/pkgconfig" "$sdk/include"
strip --strip-unneeded -o "$sdk/lib/libwiremill.so.1" "$library"
ln -s libwiremill.so.1 "$sdk/lib/libwiremill.so"
cp "$installed/include"/wiremill*.h "$sdk/include"
# shellcheck disable=SC2016 # pkg-config knows the variable
sed 's|^prefix=.*|prefix=${pcfiledir}/../..|' "$installed/lib/pkgconfig/wiremill.pc" >"$sdk/lib/pkgconfig/wiremill.pc"
for name in $(readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'); do
    case $name in libc.so* | libm.so* | ld-linux*) ;; *) ln -s "../../../lib/$name" "$sdk/lib/wiremill/$name" ;; esac
done
[ ! -e "$to/lib/wm_cuda.so" ] || ln -s ../../lib/wm_cuda.so "$sdk/lib"
for engine in "${general[@]}"; do ln -s "../../lib/wm_$engine.so" "../../lib/$engine" "$sdk/lib"; done
for name in wm_python.so wm_torch.so; do [ ! -e "$to/lib/$name" ] || ln -s "../../lib/$name" "$sdk/lib"; done
objects+=("$library")

# What they link, with what that links: as the linker of this machine finds it.
linked=$(for object in "${objects[@]}"; do ldd "$object" || exit; done) || exit 1
if missing=$(grep 'not found' <<<"$linked"); then
    printf 'bundle: a library is missing here:\n%s\n' "$missing" >&2
    exit 1
fi
path=$root/lib64/$loader
[ -e "$path" ] || path=$root/lib/$loader
schema=/usr/include/onnx/onnx.proto
mapfile -t libraries < <(sed -n 's|.* => \(/.*\) (0x.*|\1|p' <<<"$linked" | sort -u)
know_packages "${libraries[@]}" "$path" "$schema"
for library in "${libraries[@]}"; do
    case $library in "$(readlink -f "$installed")"/* | "$installed"/*) continue ;; esac
    license "$library" "lib/${library##*/}"
    cp -L "$library" "$to/lib/${library##*/}"
done
cp -L "$path" "$to/bin/$loader"
chmod 755 "$to/bin/$loader"
license "$path" "bin/$loader"
license "$schema" "(compiled in)"

cp LICENSE "$to/licenses/wiremill.txt"
[ ! -d "$installed/share" ] || cp -r "$installed/share" "$to/share"
chmod -R u=rwX,go=rX "$to"
