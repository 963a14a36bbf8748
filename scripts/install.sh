#!/bin/sh
# Installs a built Norns: ./norns install [--prefix DIR]. The prefix is /usr/local without it.
#
# With DESTDIR set, the files go below it, to be packed and unpacked at the prefix: this is how
# scripts/package.sh fills the Debian package.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
usage="usage: ./norns install [--prefix DIR]"
prefix=/usr/local
while [ $# -gt 0 ]; do
    case "$1" in
    --prefix)
        [ $# -ge 2 ] || { echo "error: --prefix needs a folder" >&2; echo "$usage" >&2; exit 2; }
        prefix=$2
        shift
        ;;
    --prefix=*) prefix=${1#--prefix=} ;;
    -h | --help)
        echo "$usage"
        exit 0
        ;;
    *)
        echo "error: unexpected argument $1" >&2
        echo "$usage" >&2
        exit 2
        ;;
    esac
    shift
done
case "$prefix" in
/*) ;;
*) prefix="$PWD/$prefix" ;;
esac
root="${DESTDIR:-}$prefix"
mkdir -p "$root" 2>/dev/null && [ -w "$root" ] || {
    echo "error: $root cannot be written" >&2
    echo " help: sudo ./norns install, or ./norns install --prefix ~/.local" >&2
    exit 2
}

# Another profile than release is for tests.
built=${NORNS_BUILT:-"$here/target/release"}
install -D -m 755 "$built/norns" "$root/bin/norns"
# Called by these names it is the compiler.
ln -sf norns "$root/bin/norns-cc"
ln -sf norns "$root/bin/norns-c++"
# Built only if somebody asked for it.
[ ! -x "$built/norns-hive-server" ] || install -D -m 755 "$built/norns-hive-server" "$root/bin/norns-hive-server"
install -D -m 644 "$built/libnorns_rt.so" "$root/lib/norns/libnorns_rt.so"

mkdir -p "$root/share/man/man1"
"$built/norns" completions --man "$root/share/man/man1"
completions() {
    mkdir -p "$(dirname "$root/share/$2")"
    "$built/norns" completions "$1" >"$root/share/$2"
}
completions bash bash-completion/completions/norns
completions zsh zsh/site-functions/_norns
completions fish fish/vendor_completions.d/norns.fish

mkdir -p "$root/share/doc/norns"
cp -R "$here/README.md" "$here/CHANGELOG.md" "$here/LICENSE" "$here/docs/." "$root/share/doc/norns"

# What norns-cc otherwise makes in the user's cache, which is slower the first time: the linker
# script that gcc takes for libtsan, with the path at which the runtime will stand, and the object
# with the hooks of an executable.
shim="$root/lib/norns/norns-gcc-shim"
rm -rf "$shim"
echo 'int main(void) { return 0; }' | "$root/bin/norns-cc" -x c - -o /dev/null
if [ -n "${DESTDIR:-}" ] && [ -e "$shim/libtsan.so" ]; then
    sed -i "s|\"$(cd "$root" && pwd -P)/|\"$prefix/|" "$shim/libtsan.so"
fi

[ -n "${DESTDIR:-}" ] || echo "norns: installed $("$root/bin/norns" --version) in $prefix" >&2
