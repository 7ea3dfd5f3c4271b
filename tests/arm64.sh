#!/bin/bash
# arm64.sh - Debian's libraries for AArch64 in a folder: packages and all that they need, its kernel and busybox for
# tests/arm64_machine.sh; needs no root (make deps-arm64).
#
# usage: tests/arm64.sh FOLDER PACKAGE...
# FOLDER/.packages names the package of each file, for the licences of a bundle.
set -e
cd "$(dirname "$0")/.."
root=$1 apt=$1.apt
shift
rm -rf "$root" && mkdir -p "$root" "$apt"/{state/lists,cache/archives}/partial && : >"$apt/status"
options=(-qq -o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o APT::Sandbox::User= -o Debug::NoLocking=true
    -o APT::Install-Recommends=false -o "Dir::State=$PWD/$apt/state" -o "Dir::State::status=$PWD/$apt/status"
    -o "Dir::Cache=$PWD/$apt/cache")
apt-get "${options[@]}" update
apt-get "${options[@]}" -y --download-only install "$@" >/dev/null
for package in "$apt"/cache/archives/*.deb; do
    dpkg -x "$package" "$root"
    dpkg --fsys-tarfile "$package" | tar -t | sed "s:^\.\(/.*[^/]\)\$:\1 $(dpkg-deb -f "$package" Package):p; d" >>"$root/.packages"
done
# Links of a whole file system lead into this one.
find "$root" -type l -lname '/*' | while read -r link; do
    ln -sfn "$(realpath -m --relative-to="$(dirname "$link")" "$root$(readlink "$link")")" "$link"
done
ln -sfn hdf5-serial.pc "$root/usr/lib/aarch64-linux-gnu/pkgconfig/hdf5.pc"
kernel=$(apt-cache "${options[@]}" depends linux-image-arm64 | sed -n 's/ *Depends: //p')
(cd "$apt" && apt-get "${options[@]}" download "$kernel" busybox-static && dpkg -x busybox-static*.deb . &&
    dpkg --fsys-tarfile "$kernel"*.deb | tar -x --wildcards './boot/vmlinuz*')
mkdir "$root/boot" && mv "$apt/bin/busybox" "$apt"/boot/vmlinuz* "$root/boot" && mv "$root/boot"/vmlinuz* "$root/boot/vmlinuz"
rm -rf "$apt"
touch "$root/.made"
