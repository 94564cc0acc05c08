#!/bin/sh
# Runs a job of `apus shard plan` with Slurm: an array of tasks for each stage, then `apus shard finish`.
#
#   sbatch --export=ALL,JOB=/shared/job verify.sh --datadir new
#
# JOB is a directory that all nodes see; the arguments are those of `apus shard finish`. Each run of
# this script starts the next array, and itself again after that. APUS_TASK has options of sbatch for
# a task, such as "--mem=900M --partition=short"; a task needs one CPU and twice the job's --dbcache.
#SBATCH --job-name=apus
set -eu
todo=$(apus shard todo --job "$JOB")
stage=${todo%% *}
case $stage in
read) option=--span ;;
match) option=--partition ;;
check) option=--bucket ;;
finish) exec apus shard finish --job "$JOB" "$@" ;;
esac
if [ "$todo" = "${LAST-}" ]; then
	echo "no task of the stage $stage succeeds: see the output of the last array" >&2
	exit 1
fi
# Slurm numbers few tasks in an array, so task i of it takes the number at place i.
export LAST="$todo" TASKS="$(echo "${todo#* }" | cut -d ' ' -f -1000)"
count=$(echo "$TASKS" | wc -w)
task="set -- \$TASKS; shift \$SLURM_ARRAY_TASK_ID; apus shard $stage --job \"\$JOB\" $option \$1"
array=$(sbatch --parsable --job-name="apus-$stage" --array="0-$((count - 1))" ${APUS_TASK-} --wrap="$task")
script=$(scontrol show job "$SLURM_JOB_ID" | sed -n 's/^ *Command=\([^ ]*\).*/\1/p')
sbatch --dependency="afterany:${array%%;*}" "$script" "$@"
