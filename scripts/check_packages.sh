#!/bin/sh
# Builds the Debian package and installs it into a root of its own, and runs `cargo install` into a
# folder of its own; each of the two must then find a race without anything of this checkout.
# Takes minutes: cargo-deb may have to be built, and Norns is built once more. Run by the peers step
# of ./test.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# finds_a_race NORNS: checks a racy program with a home of its own.
finds_a_race() {
    status=0
    HOME="$folder/home" XDG_STATE_HOME="$folder/state" XDG_CACHE_HOME= XDG_DATA_HOME= \
        "$1" check "$here/tests/programs/race/lost_update.c" </dev/null || status=$?
    [ "$status" = 1 ] || {
        echo "error: $1 check ended with $status instead of 1" >&2
        exit 1
    }
}

"$here/scripts/package.sh" "$folder/debian"
root="$folder/root"
mkdir -p "$root/var/lib/dpkg/info" "$root/var/lib/dpkg/updates"
: >"$root/var/lib/dpkg/status"
: >"$root/var/lib/dpkg/available"
# The packages that it depends on are in the real root.
dpkg --root="$root" --force-not-root --force-depends --log=/dev/null -i "$folder"/debian/*.deb
finds_a_race "$root/usr/bin/norns"
dpkg --root="$root" --force-not-root --log=/dev/null --purge norns
[ ! -e "$root/usr/bin/norns" ] || { echo "error: the package leaves files behind" >&2; exit 1; }

cargo install --quiet --locked --path "$here/crates/norns" --root "$folder/cargo"
finds_a_race "$folder/cargo/bin/norns"
[ -n "$(find "$folder/home/.local/share/norns" -name libnorns_rt.so)" ] || {
    echo "error: the installed executable has not unpacked its runtime" >&2
    exit 1
}
echo "both installations find the race"
