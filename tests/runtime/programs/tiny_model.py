"""llama.cpp's HIP backend: text from a tiny random model is that of the CPU backend. Runs inside the ROCm root.

The model has the layout of Llama: two layers of width 256, and a vocabulary of single bytes.
"""

import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

WIDTH, HEADS, LAYERS, FORWARD = 256, 4, 2, 512
UINT32, FLOAT32, STRING, ARRAY, INT32 = 4, 6, 8, 9, 5
F32, F16, ALIGNMENT = 0, 1, 32
NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6
TOKENS = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *(chr(code) for code in range(97, 123))]
KINDS = [UNKNOWN, CONTROL, CONTROL, *[BYTE] * 256, *[NORMAL] * 26]


def text(value: str) -> bytes:
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def entry(key: str, kind: int, value: object) -> bytes:
    pack = {
        UINT32: lambda v: struct.pack("<I", v),
        INT32: lambda v: struct.pack("<i", v),
        FLOAT32: lambda v: struct.pack("<f", v),
    }
    pack[STRING] = text
    head = text(key)
    if isinstance(value, list):
        return head + struct.pack("<IIQ", ARRAY, kind, len(value)) + b"".join(pack[kind](one) for one in value)
    return head + struct.pack("<I", kind) + pack[kind](value)


def tensors(matrix_type: int) -> dict[str, tuple[int, np.ndarray]]:
    """Return type and values of the tensors by name."""
    random = np.random.default_rng(17)

    def matrix(rows: int, columns: int) -> tuple[int, np.ndarray]:
        values = random.standard_normal((rows, columns)) / np.sqrt(columns) * 2
        return matrix_type, values.astype(np.float16 if matrix_type == F16 else np.float32)

    ones = (F32, np.ones(WIDTH, np.float32))
    found = {
        "token_embd.weight": matrix(len(TOKENS), WIDTH),
        "output_norm.weight": ones,
        "output.weight": matrix(len(TOKENS), WIDTH),
    }
    for layer in range(LAYERS):
        block = {f"attn_{one}.weight": matrix(WIDTH, WIDTH) for one in ("q", "k", "v", "output")}
        block |= {"ffn_gate.weight": matrix(FORWARD, WIDTH), "ffn_up.weight": matrix(FORWARD, WIDTH)}
        block |= {"ffn_down.weight": matrix(WIDTH, FORWARD), "attn_norm.weight": ones, "ffn_norm.weight": ones}
        found |= {f"blk.{layer}.{name}": value for name, value in block.items()}
    return found


def write_model(path: Path, matrix_type: int) -> None:
    """Write a model in the GGUF format, version 3."""
    sizes = {"context_length": 512, "embedding_length": WIDTH, "block_count": LAYERS, "feed_forward_length": FORWARD}
    sizes |= {"attention.head_count": HEADS, "attention.head_count_kv": HEADS, "rope.dimension_count": WIDTH // HEADS}
    entries = [entry("general.architecture", STRING, "llama")]
    entries += [entry(f"llama.{name}", UINT32, value) for name, value in sizes.items()]
    entries += [entry("llama.attention.layer_norm_rms_epsilon", FLOAT32, 1e-5), entry("tokenizer.ggml.model", STRING, "llama")]
    entries += [entry("tokenizer.ggml.tokens", STRING, TOKENS), entry("tokenizer.ggml.scores", FLOAT32, [0.0] * len(TOKENS))]
    entries += [entry("tokenizer.ggml.token_type", INT32, KINDS), entry("tokenizer.ggml.bos_token_id", UINT32, 1)]
    entries += [entry("tokenizer.ggml.eos_token_id", UINT32, 2)]
    infos, data = b"", b""
    content = tensors(matrix_type)
    for name, (kind, values) in content.items():
        data += b"\0" * (-len(data) % ALIGNMENT)
        shape = values.shape[::-1]
        infos += text(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *shape) + struct.pack("<IQ", kind, len(data))
        data += values.tobytes()
    head = b"GGUF" + struct.pack("<IQQ", 3, len(content), len(entries)) + b"".join(entries) + infos
    path.write_bytes(head + b"\0" * (-len(head) % ALIGNMENT) + data)


def generated(model: Path, *options: str) -> str:
    """Return the text that the model continues a prompt with, or the error."""
    command = [
        "llama-completion",
        "-m",
        str(model),
        "-p",
        "emulator",
        "-n",
        "12",
        "--temp",
        "0",
        "--ignore-eos",
        "-no-cnv",
        "-t",
        "2",
    ]
    done = subprocess.run(
        [*command, "--no-warmup", "-c", "128", *options], capture_output=True, check=False, stdin=subprocess.DEVNULL
    )
    return (
        done.stdout.decode(errors="backslashreplace")
        if done.returncode == 0
        else f"exit code {done.returncode}: {done.stderr[-300:]!r}"
    )


def main() -> int:
    failures = 0
    with tempfile.TemporaryDirectory() as directory:
        for name, matrix_type in (("f32", F32), ("f16", F16)):
            model = Path(directory, f"{name}.gguf")
            write_model(model, matrix_type)
            expected, actual = generated(model, "--device", "none"), generated(model, "--device", "ROCm0", "-ngl", "99")
            good = expected == actual and "exit code" not in expected
            failures += not good
            print("PASS" if good else "FAIL", name, "" if good else f"{actual!r}, not {expected!r}", flush=True)
    return failures


sys.exit(main())
