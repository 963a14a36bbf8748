# The Debian packages that Norns needs, by name, and a function that installs what is missing.

# To build Norns and to build programs with it.
BUILD_PACKAGES="gcc g++ libc6-dev"
# What ./test uses besides: more compilers, a debugger, build systems, a symboliser and a solver to
# compare with.
TEST_PACKAGES="$BUILD_PACKAGES git binutils clang-14 clang-19 llvm-14 llvm-19-dev make cmake gdb z3 openssl postgresql"
# What ./test --peers uses besides: the library of the solver and a browser to look at the report.
PEER_PACKAGES="libz3-dev chromium"

# ensure_packages FOLDER NAME...: installs what is missing. On a terminal it names the packages and
# asks first; in CI, or without a terminal, it does not ask. Remembers success in FOLDER/target, so
# that it costs nothing the next time.
ensure_packages() {
    stamp="$1/target/.packages"
    shift
    wanted=$(echo "$*" | tr ' ' '\n' | sort -u | tr '\n' ' ')
    [ -e "$stamp" ] && grep -qxF "$wanted" "$stamp" && return 0
    missing=""
    for package in $wanted; do
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' ||
            missing="$missing $package"
    done
    if [ -n "$missing" ]; then
        if [ "$(id -u)" = 0 ]; then as_root=""; else as_root=sudo; fi
        if [ -z "${CI:-}" ] && [ -t 0 ] && [ -t 2 ]; then
            echo "norns: these Debian packages are missing:$missing" >&2
            printf 'norns: install them with %s? [Y/n] ' "${as_root:+$as_root }apt-get" >&2
            read -r answer || answer=n
            case "$answer" in
            "" | [Yy]*) ;;
            *)
                echo "error: not installed:$missing" >&2
                echo " help: sudo apt-get install$missing" >&2
                return 2
                ;;
            esac
        fi
        echo "norns: installing$missing" >&2
        $as_root apt-get update -qq >&2 &&
            DEBIAN_FRONTEND=noninteractive $as_root apt-get install -qq -y --no-install-recommends $missing >&2 || {
            echo "error: cannot install$missing" >&2
            echo " help: sudo apt-get install$missing" >&2
            return 2
        }
    fi
    mkdir -p "$(dirname "$stamp")"
    echo "$wanted" >>"$stamp"
}
