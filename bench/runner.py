"""How a benchmark starts and ends: packages are installed, what it measures is built, and whatever
goes wrong is a sentence and exit status 2, not a traceback."""
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def install(*packages):
    """Debian packages that may be missing; asks first on a terminal, as ./test does."""
    script = '. scripts/packages.sh && ensure_packages "$PWD" "$@"'
    if subprocess.run(["sh", "-c", script, "sh", *packages], cwd=ROOT).returncode:
        sys.exit(2)


def build(*words):
    """`cargo build --release` of packages (`-p NAME`) and examples, in this checkout."""
    if subprocess.run(["cargo", "build", "--release", "--locked", "-q", *words], cwd=ROOT).returncode:
        fail("cannot build " + " ".join(words))


def fail(what, help=None):
    print(f"error: {what}", file=sys.stderr)
    if help:
        print(f" help: {help}", file=sys.stderr)
    sys.exit(2)


def run(main):
    """Runs a benchmark and exits with what it returns (nothing: 0)."""
    try:
        status = main() or 0
        sys.stdout.flush()
    except KeyboardInterrupt:
        status = 130
    except BrokenPipeError:
        # Whoever read the table has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 141
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace") if isinstance(error.stderr, bytes) else error.stderr
        fail(f"{' '.join(map(str, error.cmd))}: status {error.returncode}" + (f"\n{said}" if said else ""))
    except subprocess.TimeoutExpired as error:
        fail(f"{' '.join(map(str, error.cmd))}: not done after {error.timeout:.0f} s")
    except FileNotFoundError as error:
        fail(f"{error.filename} is not there")
    except OSError as error:
        fail(str(error))
    sys.exit(status)
