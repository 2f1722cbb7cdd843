"""ROCm packages of Debian in a tree: `python -m rocm_perf_lab.runtime.rocm_packages [--suite NAME] [--tests] [PACKAGE...]`.

Packages are downloaded with apt from the mirror that this machine uses, with a private package database, and unpacked without
running their scripts. Neither root nor the same Debian release is required, and the system is not changed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.files import locked, write_text
from rocm_perf_lab.runtime.rocm_releases import DEFAULT_SUITE, RELEASES, release_of
from rocm_perf_lab.runtime.rocm_root import COMPLETE_FILE, enter_root, is_complete

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocm_perf_lab.runtime.rocm_releases import DebianRelease

SUITE_VARIABLE = "ROCM_PERF_LAB_ROCM_SUITE"
TEST_PACKAGES = (
    "librocrand1-tests",
    "librocfft0-tests",
    "libhipfft0-tests",
    "librocprim-tests",
    "libhipcub-tests",
    "librocthrust-tests",
    "librocblas4-tests",
    "librocsparse1-tests",
    "libmiopen1-tests",
    "llama.cpp",
    "libggml0-backend-hip",
    "diffutils",  # for rocBLAS's tests
)
"""AMD's test programs of the default suite, built for gfx90a: about 3 GB to download, 13 GB on disk."""
_LINKS = {"usr/bin/awk": "mawk", "usr/bin/cc": "gcc", "usr/bin/c++": "g++"}
"""Links that package scripts would create."""
_COMPILER_WRAPPER = """\
#!/bin/sh
# Debian's MIOpen passes the directory of the C headers with -isystem, which hides them from the C++ headers.
count=$#
while [ $count -gt 0 ]; do
  argument=$1
  shift
  count=$((count - 1))
  if [ "$argument" = -isystem ] && [ $count -gt 0 ] && [ "$1" = /usr/include ]; then
    shift
    count=$((count - 1))
  else
    set -- "$@" "$argument"
  fi
done
exec {compiler} "$@"
"""
_LIBRARY_DIRECTORIES = "/usr/lib/x86_64-linux-gnu/blas\n/usr/lib/x86_64-linux-gnu/lapack\n"
_ACCOUNTS = {"etc/passwd": "passwd.master", "etc/group": "group.master"}
_APT_SETTINGS = """\
Dir::Etc::SourceList "{state}/sources.list";
Dir::Etc::SourceParts "/dev/null";
Dir::Etc::Preferences "{state}/preferences";
Dir::Etc::PreferencesParts "/dev/null";
Dir::State "{state}";
Dir::State::Lists "{state}/lists";
Dir::State::status "{state}/status";
Dir::Cache "{state}";
Dir::Cache::archives "{state}/archives";
APT::Install-Recommends "false";
APT::Architecture "amd64";
APT::Sandbox::User "";
Acquire::Languages "none";
Acquire::Retries "3";
Debug::NoLocking "true";
"""


@dataclass(frozen=True)
class PackageDownloads:
    """Private apt database in `state`, and the packages downloaded with it."""

    state: Path

    def prepare(self, mirror: str, release: DebianRelease, status: str) -> None:
        """Write apt's settings and read the package lists of `mirror`.

        Args:
            mirror: Address of a Debian mirror.
            release: Suites and pins.
            status: Database of the packages that are already unpacked, in dpkg's format.

        Raises:
            LabError: The package lists cannot be read.
        """
        for directory in ("lists/partial", "archives/partial", "none/partial"):
            (self.state / directory).mkdir(parents=True, exist_ok=True)
        write_text(self.state / "status", status)
        write_text(self.state / "sources.list", release.sources(mirror))
        write_text(self.state / "preferences", release.preferences())
        write_text(self.state / "apt.conf", _APT_SETTINGS.format(state=self.state))
        self._apt(["-qq", "update"])

    def download(self, packages: Sequence[str]) -> list[Path]:
        """Download packages with their dependencies; interrupted downloads are resumed.

        Returns:
            The files of the packages that are not in the status database.

        Raises:
            LabError: A package does not exist or cannot be downloaded.
        """
        # --print-uris omits existing files, so that it must be run on an empty directory.
        listed = self._apt(["install", "-qq", "-y", "--print-uris", "-o", f"Dir::Cache::archives={self.state}/none", *packages])
        names = [line.split()[1] for line in listed.splitlines() if line.startswith("'")]
        self._apt(["install", "-qq", "-y", "--download-only", *packages])
        return [self.state / "archives" / name for name in names]

    def _apt(self, arguments: Sequence[str]) -> str:
        """Run apt-get with the private settings and return its output."""
        environment = {**os.environ, "APT_CONFIG": str(self.state / "apt.conf"), "LC_ALL": "C.UTF-8"}
        done = subprocess.run(["apt-get", *arguments], env=environment, capture_output=True, text=True, check=False)
        errors = [line for line in (done.stderr + done.stdout).splitlines() if line.startswith(("E:", "Err:", "W: Failed"))]
        if done.returncode or any(not line.startswith("Err:") for line in errors):
            reason = errors[-1] if errors else f"apt-get exited with code {done.returncode}"
            raise LabError(f"ROCm packages cannot be had: {reason}", hint="check the network and apt's package sources")
        return done.stdout


def install_packages(root: Path, packages: Sequence[str], release: DebianRelease) -> list[str]:
    """Set up `root` with packages, or add missing ones.

    A new tree is built under a temporary name and renamed when it is complete. Concurrent set-ups of the same tree are
    serialised.

    Args:
        root: The directory tree.
        packages: Names of Debian packages.
        release: Release to which they belong.

    Returns:
        The packages that were missing; empty if `root` was complete.

    Raises:
        LabError: The packages cannot be had, or this user cannot enter a root directory.
    """
    with locked(root.with_name(f"{root.name}.lock")):
        present = (root / COMPLETE_FILE).read_text().split() if is_complete(root) else []
        missing = [package for package in packages if package not in present]
        if missing:
            _require_tools()
            _install(root, missing, present, release)
        _wrap_compilers(root)
        return missing


def debian_mirror() -> str:
    """Return the URL of the Debian mirror in apt's configuration.

    Raises:
        LabError: apt has no Debian mirror.
    """
    fields = "$(ORIGIN)|$(LABEL)|$(COMPONENT)|$(REPO_URI)"
    done = subprocess.run(["apt-get", "indextargets", "--format", fields], capture_output=True, text=True, check=False)
    for line in done.stdout.splitlines():
        origin, label, component, address = line.split("|")
        # Without package lists, only the URL is known.
        is_debian = (origin, label) == ("Debian", "Debian") or (not origin and address.rstrip("/").endswith("/debian"))
        if component == "main" and is_debian:
            return address
    raise LabError(
        "apt on this machine has no Debian mirror", hint="use a machine or a container with Debian, or install ROCm itself"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Set up the ROCm root of this machine and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m rocm_perf_lab.runtime.rocm_packages", description=__doc__.split("\n")[0])
    suite = os.environ.get(SUITE_VARIABLE, DEFAULT_SUITE)
    parser.add_argument("--suite", default=suite, metavar="NAME", help=f"Debian suite: {', '.join(RELEASES)} (default: {suite})")
    parser.add_argument("--tests", action="store_true", help=f"also AMD's test programs of {DEFAULT_SUITE}, 13 GB on disk")
    parser.add_argument("packages", nargs="*", help="other packages to add")
    chosen = parser.parse_args(arguments)
    try:
        release = release_of(chosen.suite)
        root = release.root
        added = install_packages(root, [*release.packages, *(TEST_PACKAGES if chosen.tests else ()), *chosen.packages], release)
    except LabError as error:
        print("error: " + "\n".join(error.lines()), file=sys.stderr)
        return error.exit_code
    print(f"ROCm root: {root} ({len(added)} packages added)" if added else f"ROCm root: {root} (complete)")
    return 0


def _require_tools() -> None:
    for tool in ("apt-get", "dpkg-deb"):
        if shutil.which(tool) is None:
            raise LabError(f"{tool} is not installed", hint="use a machine or a container with Debian, or install ROCm itself")


def _install(root: Path, missing: Sequence[str], present: Sequence[str], release: DebianRelease) -> None:
    """Download and unpack packages into a new or an existing tree."""
    state = root.with_name(f"{root.name}.packages")
    place = root if present else root.with_name(f"{root.name}.new")
    database = place / "var/lib/dpkg/status"
    if not present:
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
    downloads = PackageDownloads(state)
    _report("reading the package lists")
    downloads.prepare(debian_mirror(), release, database.read_text() if present else "")
    _report(f"downloading {len(missing)} packages and their dependencies")
    files = downloads.download(missing)
    _report(f"unpacking {len(files)} packages into {root}")
    _unpack(place, files)
    _configure(place)
    write_text(place / COMPLETE_FILE, "\n".join([*present, *missing]) + "\n")
    if not present:
        shutil.rmtree(root, ignore_errors=True)
        place.rename(root)
    shutil.rmtree(state)


def _unpack(root: Path, files: Sequence[Path]) -> None:
    """Unpack packages and add them to dpkg's database of the tree."""
    database = root / "var/lib/dpkg/status"
    # base-files contains links such as /bin -> usr/bin, which must exist before other packages are unpacked.
    for file in sorted(files, key=lambda file: not file.name.startswith("base-files_")):
        unpacked = subprocess.run(["dpkg-deb", "-x", file, root], capture_output=True, text=True, check=False)
        if unpacked.returncode:
            raise LabError(f"{file.name} cannot be unpacked: {unpacked.stderr.strip()}", where=str(root), hint="free disk space")
        control = subprocess.run(["dpkg-deb", "-f", file], capture_output=True, text=True, check=True).stdout
        database.parent.mkdir(parents=True, exist_ok=True)
        with database.open("a", encoding="utf-8") as sink:
            name, rest = control.split("\n", 1)
            sink.write(f"{name}\nStatus: install ok installed\n{rest.rstrip()}\n\n")


def _configure(root: Path) -> None:
    """Create the files that package scripts would create: links, accounts and the linker's cache."""
    for link, target in _LINKS.items():
        if not os.path.lexists(root / link):
            (root / link).symlink_to(target)
    for account, master in _ACCOUNTS.items():
        shutil.copyfile(root / "usr/share/base-passwd" / master, root / account)
    write_text(root / "etc/ld.so.conf.d/00-rocm-perf-lab.conf", _LIBRARY_DIRECTORIES)
    command = enter_root(root, ["/sbin/ldconfig"], shared=[], working_directory=Path("/"), environment={})
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LabError(f"ldconfig failed inside the ROCm root: {done.stderr.strip()}", where=str(root))


def _wrap_compilers(root: Path) -> None:
    """Replace the links of the C++ compilers in a tree, `clang++-21`, by scripts that correct their arguments."""
    for link in (root / "usr/bin").glob("clang++-[0-9]*"):
        if link.is_symlink():
            script = link.with_name(f"{link.name}.new")
            write_text(script, _COMPILER_WRAPPER.format(compiler=Path("/usr/bin", link.readlink())))
            script.chmod(0o755)
            script.rename(link)


def _report(what: str) -> None:
    print(f"ROCm root: {what}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
