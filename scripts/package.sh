#!/bin/sh
# Builds the Debian package: scripts/package.sh [FOLDER]; the folder is target/debian without it.
#
# cargo-deb makes it, and is installed from crates.io into target/tools when it is not on the PATH.
# What goes into the package is what ./norns install would install in /usr.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
folder=${1:-"$here/target/debian"}
stage="$here/target/package"
PATH="$here/target/tools/bin:$PATH"

command -v cargo-deb >/dev/null || {
    echo "norns: installing cargo-deb from crates.io" >&2
    cargo install cargo-deb --quiet --locked --no-default-features --root "$here/target/tools" >&2
}
rm -rf "$stage"
mkdir -p "$stage" "$folder"
DESTDIR="$stage" "$here/norns" install --prefix /usr
cd "$here"
cargo deb --quiet --no-build --no-strip --package norns --output "$folder"
