"""Settings a process must have from its start to execute schedules well; importing this imports nothing else."""

from __future__ import annotations

from collections.abc import Mapping

# glibc's memmove then bypasses the caches from 256 KiB on. The copy threads move memory nobody reads soon: measured on
# 2 cores of a Xeon (Sapphire Rapids), 1 MiB pieces went from 7.0 to 11-14 GB/s, which halves the CPU time they take
# from the kernels beside them; no-offload steps became 8 % shorter too. glibc reads it once, when the process starts.
EXECUTION_ENVIRONMENT: Mapping[str, str] = {"GLIBC_TUNABLES": "glibc.cpu.x86_non_temporal_threshold=0x40000"}
