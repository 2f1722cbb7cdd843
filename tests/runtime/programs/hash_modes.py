"""hashcat's HIP backend: its self-tests, and a password to recover, for ten hash modes. Runs inside the ROCm root."""

import hashlib
import hmac
import subprocess
import sys
import tempfile
from pathlib import Path

PASSWORD, SALT, MASK = b"4072", b"salt", "?d?d?d?d"
MODES = {
    0: hashlib.md5(PASSWORD).hexdigest(),
    100: hashlib.sha1(PASSWORD).hexdigest(),
    1300: hashlib.sha224(PASSWORD).hexdigest(),
    1400: hashlib.sha256(PASSWORD).hexdigest(),
    10800: hashlib.sha384(PASSWORD).hexdigest(),
    1700: hashlib.sha512(PASSWORD).hexdigest(),
    17400: hashlib.sha3_256(PASSWORD).hexdigest(),
    600: "$BLAKE2$" + hashlib.blake2b(PASSWORD).hexdigest(),
    1410: hashlib.sha256(PASSWORD + SALT).hexdigest() + ":salt",
    150: hmac.new(PASSWORD, SALT, hashlib.sha1).hexdigest() + ":salt",
}
# Fixed launches: hashcat otherwise asks for more work until a kernel takes some milliseconds of emulated time.
OPTIONS = ["-a", "3", "-n", "1", "-u", "1", "-T", "64", "--backend-ignore-opencl", "--potfile-disable", "--force"]


def failure_of(mode: int, target: str, directory: Path) -> str:
    """Return why hashcat failed, or an empty string."""
    output = directory / f"found-{mode}"
    command = ["hashcat", "-m", str(mode), *OPTIONS, "-o", str(output), "--outfile-format", "2", target, MASK]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    text = done.stdout + done.stderr
    if "self-test failed" in text:
        return "self-test failed"
    found = output.read_text().strip() if output.exists() else ""
    return "" if found == PASSWORD.decode() else f"exit code {done.returncode}, found {found!r}: {' '.join(text.split())[-200:]}"


def main() -> int:
    failures = 0
    with tempfile.TemporaryDirectory() as directory:
        for mode, target in MODES.items():
            reason = failure_of(mode, target, Path(directory))
            failures += bool(reason)
            print("FAIL" if reason else "PASS", f"mode_{mode}", reason, flush=True)
    return failures


sys.exit(main())
