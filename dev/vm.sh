#!/usr/bin/env bash
# Runs a backend's containment suite on a stock kernel, in an emulated machine:
# dev/vm.sh [-u] [-r PATTERN] [-o DIR] [BACKEND…]; the default is bubblewrap and
# forkserver.
#
# The machine has Debian's kernel with cgroup v2, Landlock, AppArmor and yama,
# whatever this host's has. It is emulated, so it needs no KVM and nothing in
# it is timed. The kernel and the file system are made once and kept in the
# cache; nothing is installed but the emulator and what makes the file system.
# PATTERN is go test's -run; DIR receives the reports of AIRLOCK_CONTAINMENT.
# With -u the posture that is seen becomes the golden file, in DIR.
set -euo pipefail
cd "$(dirname "$0")/.."

pattern=TestConformance out= flags=
while getopts ur:o: option; do
	case $option in
	u) flags=-update-posture ;;
	r) pattern=$OPTARG ;;
	o) out=$OPTARG ;;
	*) exit 2 ;;
	esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || set -- bubblewrap forkserver
cache=${XDG_CACHE_HOME:-$HOME/.cache}/airlock/vm
suite=bookworm

[ "$(uname -sm)" = "Linux x86_64" ] || { echo "vm: only Linux on x86-64 is emulated yet" >&2; exit 2; }

# need installs packages for programs that are missing.
need() {
	local missing=() pair
	for pair in qemu-system-x86_64:qemu-system-x86 cpio:cpio mmdebstrap:mmdebstrap; do
		command -v "${pair%%:*}" >/dev/null || missing+=("${pair#*:}")
	done
	[ ${#missing[@]} -gt 0 ] || return 0
	command -v apt-get >/dev/null && [ "$(id -u)" = 0 ] || {
		echo "vm: missing: ${missing[*]}. Install them as root with apt-get" >&2
		exit 2
	}
	echo "vm: installing ${missing[*]} with apt-get" >&2
	apt-get -q -y update >&2
	DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Dpkg::Use-Pty=0 install --no-install-recommends "${missing[@]}" >&2
}

# kernel puts Debian's kernel for virtual machines into the cache.
kernel() {
	[ ! -s "$cache/vmlinuz" ] || return 0
	local dir package
	dir=$(mktemp -d)
	package=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/.*Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1)
	[ -n "$package" ] || { echo "vm: apt knows no linux-image-cloud-amd64: only Debian is supported" >&2; exit 2; }
	echo "vm: fetching $package" >&2
	(cd "$dir" && apt-get -q download "$package" >&2 && dpkg -x ./*.deb tree)
	mv "$dir"/tree/boot/vmlinuz-* "$cache/vmlinuz"
	rm -rf "$dir"
}

# base makes the machine's file system without the tests.
base() {
	[ ! -s "$cache/base.cpio" ] || return 0
	local dir
	dir=$(mktemp -d)
	echo "vm: making a file system with python3 and bubblewrap" >&2
	mmdebstrap --quiet --mode=root --variant=minbase --include=python3-minimal,libpython3-stdlib,bubblewrap \
		--dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
		"$suite" "$dir/root" >&2
	rm -rf "$dir"/root/var/lib/apt/lists/* "$dir"/root/var/cache/apt/*
	(cd "$dir/root" && find . | cpio --quiet -o -H newc >"$cache/base.cpio.part")
	mv "$cache/base.cpio.part" "$cache/base.cpio"
	rm -rf "$dir"
}

# tests adds what is run, and what starts it.
tests() {
	local dir=$1 backend
	shift
	mkdir -p "$dir/test"
	for backend; do
		mkdir -p "$dir/test/$backend"
		CGO_ENABLED=0 go test -c -o "$dir/test/$backend/suite" "./backends/$backend"
		[ ! -d "backends/$backend/testdata" ] || cp -R "backends/$backend/testdata" "$dir/test/$backend/"
	done
	cat >"$dir/init" <<-'INIT'
		#!/bin/sh
		# bwrap pivots its root, which the kernel allows of any file system but
		# the one it booted with.
		if [ ! -e /booted ]; then
			mkdir /newroot
			mount -t tmpfs -o mode=0755,size=80% root /newroot
			for part in bin boot etc home init lib lib32 lib64 libx32 media mnt opt root run sbin srv test usr var; do
				[ ! -e "/$part" ] || cp -a "/$part" /newroot/
			done
			mkdir -p /newroot/proc /newroot/sys /newroot/dev /newroot/tmp /newroot/out
			touch /newroot/booted
			exec switch_root /newroot /init
		fi
		mount -t proc proc /proc
		mount -t sysfs sys /sys
		mount -t devtmpfs dev /dev
		mkdir -p /dev/shm /dev/pts
		mount -t tmpfs -o mode=1777 shm /dev/shm
		mount -t tmpfs -o mode=1777 tmp /tmp
		mount -t devpts pts /dev/pts
		mount -t cgroup2 cgroup /sys/fs/cgroup
		ip link set lo up 2>/dev/null
		hostname machine
		export HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
		. /test/settings
		code=0
		for backend in $BACKENDS; do
			cd /test/$backend
			AIRLOCK_TEST_SLOWNESS=6 AIRLOCK_CONTAINMENT=/out AIRLOCK_REQUIRE=$BACKENDS ./suite -test.run "$PATTERN" -test.timeout 30m $FLAGS || code=1
			[ -z "$FLAGS" ] || cp testdata/posture*.json /out/
		done
		for report in /out/*.json; do
			[ -e "$report" ] || continue
			echo "vm-report $(basename "$report")"
			gzip -c "$report" | base64 | sed 's/^/vm-data /'
		done
		echo "vm-ended $code"
		sync
		echo o >/proc/sysrq-trigger
		sleep 60
	INIT
	chmod +x "$dir/init"
	printf 'BACKENDS="%s"\nPATTERN=%s\nFLAGS=%s\n' "$*" "'$pattern'" "$flags" >"$dir/test/settings"
}

# reports takes the files out of the console's text.
reports() {
	[ -n "$out" ] || return 0
	mkdir -p "$out"
	local name
	for name in $(sed -n 's/^vm-report \([a-z0-9.+-]*\).*/\1/p' "$1"); do
		awk -v name="$name" '$1 == "vm-report" { on = $2 == name } on && $1 == "vm-data" { print $2 }' "$1" |
			base64 -d | gunzip >"$out/$name"
	done
}

need
mkdir -p "$cache"
kernel
base
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tests "$work/root" "$@"
{
	cat "$cache/base.cpio"
	(cd "$work/root" && find . | cpio --quiet -o -H newc)
} >"$work/initrd"

echo "vm: running $* on $(file -b "$cache/vmlinuz" 2>/dev/null | grep -o 'version [^ ]*' || echo 'a stock kernel')" >&2
timeout 1800 qemu-system-x86_64 -accel tcg,thread=multi -cpu max -m 4096 -smp 2 -nographic -no-reboot -nic none \
	-kernel "$cache/vmlinuz" -initrd "$work/initrd" \
	-append "console=ttyS0 quiet panic=1 mitigations=off rdinit=/init" </dev/null | tr -d '\r' | tee "$work/console" | grep -v '^vm-'
reports "$work/console"
grep -q '^vm-ended 0' "$work/console" || { echo "vm: the suite failed, or did not end" >&2; exit 1; }
