#!/bin/bash
# arm64_machine.sh - a whole AArch64 machine by qemu: Debian's kernel, a folder as its root, and memory.
#
# usage: tests/arm64_machine.sh ROOT MIB SECONDS
# ROOT/job runs in it by busybox's sh, as root. What it prints goes to standard output, its exit code is this script's; 124: it was
# not at its end in time, 125: there was no machine. /proc, /sys, /dev, /tmp and cgroups are there, and a network of lo alone. Its disk is its memory.
set -eu -o pipefail
cd "$(dirname "$0")/.."
at=$PWD/build/arm64-root/boot root=$1
mkdir -p "$root"/{bin,dev,proc,sys,tmp}
cp "$at/busybox" "$root/bin"
cat >"$root/init" <<'END'
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/shm
mount -t tmpfs shm /dev/shm
mount -t tmpfs tmp /tmp
mount -t cgroup2 cgroup /sys/fs/cgroup
ip link set lo up
dmesg -n 1
echo "the job begins"
sh /job </dev/null 2>&1
echo "the job's exit code is $?"
poweroff -f
END
chmod 755 "$root/init"
packed=$(mktemp)
trap 'rm -f "$packed" "$packed.said"' EXIT
(cd "$root" && find . -print0 | cpio --quiet -0 -o -H newc -R 0:0) >"$packed"
set +e
timeout "$3" qemu-system-aarch64 -M virt -cpu max,pauth-impdef=on -smp 2 -m "$2" -nographic -nodefaults -serial stdio -no-reboot \
    -kernel "$at/vmlinuz" -initrd "$packed" -append 'console=ttyAMA0 quiet panic=-1' </dev/null |
    sed -u 's/\r//g; 0,/^the job begins$/d' | tee "$packed.said" | sed -u "/^the job's exit code is /d"
ended=${PIPESTATUS[0]}
code=$(sed -n "s/^the job's exit code is //p" "$packed.said")
[ "$code" ] || [ "$ended" = 124 ] || { echo "the machine ended before its job: qemu's exit code is $ended" >&2; exit 125; }
exit "${code:-124}"
