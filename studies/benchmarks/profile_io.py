"""Large profiles: merging the files of many ranks, writing the cubex file, reading it back.

    python studies/benchmarks/profile_io.py [--paths 5000] [--ranks 64] [--metrics 4] [--json FILE]

The profiles are synthetic: a random call tree, of which every rank has visited most, with random numbers. A process of
its own does the work, so that its greatest memory is that of the work. It should stay below 5 s and 500 MB.
"""

from __future__ import annotations

import argparse
import json
import resource
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from buran.measurement.dump import COMMON_INFO, COMPLETE, COUNTS_BLOCKS, END, HEADER, KIND_ROOT, MAGIC, NODE, VERSION
from buran.measurement.merge_dumps import read_dumps
from buran.profiles.cubex_read import read_cubex
from buran.profiles.cubex_write import write_cubex
from buran.profiles.metrics import METRICS

LIMIT_S, LIMIT_MB = 5.0, 500.0


@dataclass(frozen=True)
class Figures:
    """What one run took."""

    call_paths: int
    ranks: int
    metrics: int
    merge_s: float
    write_s: float
    read_s: float
    import_s: float
    cpu_s: float
    peak_mb: float
    dumps_mb: float
    cubex_mb: float

    @property
    def total_s(self) -> float:
        return self.merge_s + self.write_s + self.read_s


def text(value: str) -> bytes:
    data = value.encode()
    return struct.pack("<I", len(data)) + data


def make_dumps(folder: Path, paths: int, ranks: int) -> None:
    """Write one file for each rank. Subtrees that a rank has not visited are not in its file."""
    random = np.random.default_rng(1)
    regions = max(300, paths // 5)  # more than siblings can be apart, so that call paths stay different
    parent = np.zeros(paths, dtype=np.int64)
    parent[1:] = [random.integers(max(0, i - 200), i) for i in range(1, paths)]
    region = np.r_[0, 1 + np.arange(paths - 1) % (regions - 1)]
    head = b"".join(text(word) for key in COMMON_INFO for word in (key, f"some {key}"))
    names = [f"Application::Namespace::function_{i}(std::vector<double> const&, int)" for i in range(regions)]
    described = b"".join(
        text(name)
        + text(f"_Z{i}")
        + text("/source/of/the/application.cpp")
        + struct.pack("<II", i, 0 if i else KIND_ROOT)
        for i, name in enumerate(names)
    )
    for rank in range(ranks):
        visited = np.ones(paths, dtype=bool)
        visited[random.integers(1, paths, paths // 100 if rank else 0)] = False
        for i in range(1, paths):
            visited[i] &= visited[parent[i]]
        numbers = np.cumsum(visited) - 1
        nodes = np.zeros(int(visited.sum()), dtype=NODE)
        nodes["parent"] = numbers[parent[visited]]
        nodes["region"] = region[visited]
        for field in ("visits", "ticks", "blocks", "bytes_sent", "bytes_received"):
            nodes[field] = random.integers(0, 1 << 40, len(nodes))
        flags = COMPLETE | COUNTS_BLOCKS
        body = HEADER.pack(MAGIC, VERSION, flags, rank, ranks, 2.4e9, 2 * len(COMMON_INFO), regions, 1, 0)
        body += head + described + struct.pack("<II", 0, len(nodes)) + nodes.tobytes()
        (folder / f"rank-{rank:06d}.buran").write_bytes(body + END + struct.pack("<I", zlib.crc32(body)))


def work(folder: Path, ranks: int, metrics: int, import_s: float) -> Figures:
    """Merge, write and read; check that nothing has changed on the way."""
    times = [time.perf_counter()]
    profile = read_dumps(folder, ranks)
    times.append(time.perf_counter())
    chosen = [name for name in METRICS if name in profile.metrics][:metrics]
    profile = replace(
        profile,
        metrics={name: profile.metrics[name] for name in chosen},
        values={name: profile.values[name] for name in chosen},
    )
    file = folder / "profile.cubex"
    times.append(time.perf_counter())
    write_cubex(profile, file)
    times.append(time.perf_counter())
    again = read_cubex(file)
    times.append(time.perf_counter())
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    assert again.tree.names == profile.tree.names
    assert all((again.values[name] == profile.values[name]).all() for name in chosen)
    return Figures(
        call_paths=len(profile.tree),
        ranks=ranks,
        metrics=len(chosen),
        merge_s=times[1] - times[0],
        write_s=times[3] - times[2],
        read_s=times[4] - times[3],
        import_s=import_s,
        cpu_s=time.process_time() - import_s,
        peak_mb=peak_mb,
        dumps_mb=sum(path.stat().st_size for path in folder.glob("*.buran")) / 1e6,
        cubex_mb=file.stat().st_size / 1e6,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--paths", type=int, default=5000, help="call paths (default 5000)")
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--metrics", type=int, default=4)
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--work-in", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work_in:
        print(json.dumps(asdict(work(arguments.work_in, arguments.ranks, arguments.metrics, time.process_time()))))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        make_dumps(Path(folder), arguments.paths, arguments.ranks)
        own = [sys.executable, __file__, "--ranks", str(arguments.ranks), "--metrics", str(arguments.metrics)]
        done = subprocess.run([*own, "--work-in", folder], stdout=subprocess.PIPE, text=True, check=True)
    figures = Figures(**json.loads(done.stdout))
    print(f"{figures.call_paths} call paths x {figures.ranks} ranks x {figures.metrics} metrics")
    print(f"  merging the files ({figures.dumps_mb:.0f} MB)  {figures.merge_s:6.2f} s")
    print(f"  writing cubex ({figures.cubex_mb:.0f} MB)      {figures.write_s:6.2f} s")
    print(f"  reading it back           {figures.read_s:6.2f} s")
    print(f"  together                  {figures.total_s:6.2f} s (bound {LIMIT_S:.0f} s)")
    print(f"  CPU time of all that      {figures.cpu_s:6.2f} s")
    print(f"  imports before that       {figures.import_s:6.2f} s")
    print(f"  greatest memory           {figures.peak_mb:6.0f} MB (bound {LIMIT_MB:.0f} MB)")
    if arguments.json:
        arguments.json.write_text(json.dumps(asdict(figures), indent=2) + "\n", encoding="utf-8")
    return int(figures.total_s > LIMIT_S or figures.peak_mb > LIMIT_MB)


if __name__ == "__main__":
    sys.exit(main())
