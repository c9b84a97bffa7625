"""Runs of several processes on this machine, started as users would."""

import os
import random
import socket
import subprocess
import sys
from pathlib import Path


def commands(count, *arguments):
    """Return the commands of several processes that know each other."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        coordinator = f"localhost:{free.getsockname()[1]}"
    command = [sys.executable, "-m", "simplex_jax", *map(str, arguments)]
    together = ["--coordinator", coordinator, "--processes", str(count)]
    return [[*command, *together, "--process", str(number)] for number in range(count)]


def begin(command, devices=1):
    """Start a command."""
    environment = os.environ | {"JAX_NUM_CPU_DEVICES": str(devices), "JAX_PLATFORMS": "cpu"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, env=environment, text=True, **pipes)


def start(count, *arguments, devices=1):
    """Start `simplex-jax` in several processes that know each other."""
    return [begin(command, devices) for command in commands(count, *arguments)]


def start_by_slurm(count, *arguments):
    """Start the same with the variables that SLURM sets, by which the processes find each other."""
    job = {"SLURM_JOB_ID": 1 + random.randrange(4000), "SLURM_NTASKS": count}
    step = {"SLURM_STEP_NODELIST": "localhost", "SLURM_STEP_NUM_NODES": 1}
    return _start_detected(count, arguments, job | step, ["SLURM_PROCID", "SLURM_LOCALID"])


def start_by_open_mpi(count, *arguments):
    """Start the same with the variables that mpirun of Open MPI 4.1 sets."""
    uri = f"{2**12 * random.randrange(4000)}.0;tcp://127.0.0.1:37005;tcp6://[::1]:43769"
    job = {"OMPI_MCA_orte_hnp_uri": uri, "OMPI_COMM_WORLD_SIZE": count}
    ranks = ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"]
    return _start_detected(count, arguments, job, ranks)


def _start_detected(count, arguments, job, ranks):
    """Start processes that JAX must detect from the job's variables and their own ranks."""
    command = [sys.executable, "-m", "simplex_jax", *map(str, arguments), "--distributed"]
    return [
        subprocess.Popen(
            command,
            env=os.environ
            | {"JAX_PLATFORMS": "cpu"}
            | {name: str(value) for name, value in job.items()}
            | dict.fromkeys(ranks, str(number)),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(count)
    ]


def run_by_mpirun(count, *arguments):
    """Run the same with the installed mpirun, and return its status and standard error."""
    root = ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"]
    program = [sys.executable, "-m", "simplex_jax", *map(str, arguments), "--distributed"]
    done = subprocess.run(
        ["mpirun", "--oversubscribe", "-n", str(count), *program],
        env=os.environ | {"JAX_PLATFORMS": "cpu"} | dict.fromkeys(root, "1"),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return done.returncode, done.stderr


def finish(processes, timeout=300):
    """Wait for processes, and return the status of each and what it said."""
    ends = []
    for process in processes:
        ends.append((process, "".join(process.communicate(timeout=timeout))))
    return [(process.returncode, said) for process, said in ends]


def shares(directory: Path):
    """Return the files of document shares, one per process."""
    return sorted((directory / "doc_topics").iterdir())
