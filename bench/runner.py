"""How a benchmark starts and ends: packages are installed, what it measures is built, and whatever
goes wrong is a sentence and exit status 2, not a traceback."""
import glob
import os
import re
import resource
import shutil
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


def fetch_debian_source(package, folder):
    """Downloads a source package with lists of our own: the system's may name no sources."""
    lines = []
    for path in ["/etc/apt/sources.list", *glob.glob("/etc/apt/sources.list.d/*.list")]:
        if os.path.exists(path):
            lines += [re.sub(r"^deb ", "deb-src ", line) for line in open(path) if line.startswith("deb ")]
    for path in glob.glob("/etc/apt/sources.list.d/*.sources"):
        for stanza in open(path).read().split("\n\n"):
            field = {k.lower(): v for k, v in re.findall(r"^([A-Za-z-]+): (.*)$", stanza, re.M)}
            key = f"[signed-by={field['signed-by']}] " if "signed-by" in field else ""
            if "debian" in field.get("uris", ""):
                lines += [f"deb-src {key}{field['uris']} {suite} {field.get('components', 'main')}\n"
                          for suite in field.get("suites", "").split()]
    lists = os.path.join(folder, "lists")
    os.makedirs(os.path.join(lists, "partial"), exist_ok=True)
    with open(os.path.join(folder, "sources.list"), "w") as out:
        out.writelines(lines)
    options = ["-o", f"Dir::Etc::sourcelist={folder}/sources.list", "-o", "Dir::Etc::sourceparts=-",
               "-o", f"Dir::State::lists={lists}", "-q"]
    for words in (["update"], ["source", "--download-only", "--tar-only", package]):
        subprocess.run(["apt-get", *options, *words], cwd=folder, check=True, capture_output=True)


def debian_source(package, folder, *patterns):
    """The unpacked source package, below `folder`; with patterns, only the files that match."""
    folder = os.path.join(folder, package)
    unpacked = os.path.join(folder, "unpacked")
    if not os.path.isdir(unpacked):
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(unpacked + ".part")
        fetch_debian_source(package, folder)
        archive = [name for name in glob.glob(folder + "/*.orig.tar.*") if not name.endswith(".asc")][0]
        wanted = ["--wildcards", *patterns] if patterns else []
        subprocess.run(["tar", "xf", archive, "--strip-components=1", *wanted], cwd=unpacked + ".part", check=True)
        os.remove(archive)
        os.rename(unpacked + ".part", unpacked)
    return unpacked


def crate_source(folder, crate, version, pattern):
    """A file that a crate vendors; what fetches it is made below `folder`."""
    found = glob.glob(os.path.expanduser(f"~/.cargo/registry/src/*/{crate}-{version}*/{pattern}"))
    if not found:
        project = os.path.join(folder, "fetch")
        os.makedirs(os.path.join(project, "src"), exist_ok=True)
        open(os.path.join(project, "src", "lib.rs"), "w").close()
        with open(os.path.join(project, "Cargo.toml"), "w") as manifest:
            manifest.write(f'[package]\nname = "fetch"\nversion = "0.0.0"\nedition = "2021"\n'
                           f'[dependencies]\n{crate} = "{version}"\n[workspace]\n')
        subprocess.run(["cargo", "fetch", "-q"], cwd=project, check=True)
        found = glob.glob(os.path.expanduser(f"~/.cargo/registry/src/*/{crate}-{version}*/{pattern}"))
    if not found:
        fail(f"{crate} {version} has no {pattern}")
    return found[0]


def cpu_time(command, environment, directory):
    """User and system seconds of one run."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=False, env=environment, cwd=directory,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


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
