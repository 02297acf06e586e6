#!/bin/sh
#SBATCH --job-name=forebay-sweep
#SBATCH --array=0-7
# A sweep over many buffers as an array of jobs: each simulates a part and leaves a file; who is last may join them.
#
#     sbatch slurm_sweep.sh TRACE FOLDER
#     python3 slurm_part.py --join FOLDER OUT.parquet        # when all are done
#
# PYTHON names the interpreter that has forebay installed; slurm_part.py is looked for in the folder from which the job was sent.
set -eu
exec "${PYTHON:-python3}" "${SLURM_SUBMIT_DIR:-.}/slurm_part.py" "$1" "$2"
