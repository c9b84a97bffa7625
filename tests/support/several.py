"""Runs of several processes on this machine, as their users start them."""

import os
import random
import socket
import subprocess
import sys
from pathlib import Path


def start(count, *arguments, devices=1):
    """Start `simplex-jax` in so many processes that know of each other."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        coordinator = f"localhost:{free.getsockname()[1]}"
    environment = os.environ | {"JAX_NUM_CPU_DEVICES": str(devices), "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-m", "simplex_jax", *map(str, arguments)]
    together = ["--coordinator", coordinator, "--processes", str(count)]
    return [
        subprocess.Popen(
            [*command, *together, "--process", str(number)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(count)
    ]


def start_by_slurm(count, *arguments):
    """Start the same with the variables that SLURM sets, by which the processes find each other."""
    job = 1 + random.randrange(4000)
    common = {"SLURM_JOB_ID": job, "SLURM_STEP_NODELIST": "localhost", "SLURM_STEP_NUM_NODES": 1}
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "SLURM_NTASKS": str(count)}
    command = [sys.executable, "-m", "simplex_jax", *map(str, arguments), "--distributed"]
    return [
        subprocess.Popen(
            command,
            env=environment
            | {name: str(value) for name, value in common.items()}
            | {"SLURM_PROCID": str(number), "SLURM_LOCALID": str(number)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(count)
    ]


def finish(processes, timeout=300):
    """Wait for processes, and return the status and standard error of each."""
    ends = []
    for process in processes:
        _, errors = process.communicate(timeout=timeout)
        ends.append((process.returncode, errors))
    return ends


def shares(directory: Path):
    """Return the files of the shares of documents, one a process."""
    return sorted((directory / "doc_topics").iterdir())
