#!/bin/sh
# Runs contrib/slurm/verify.sh with real Slurm: a controller and a node of this user, on this machine.
#
#   scripts/slurm.sh PROGRAM      PROGRAM is apus; needs slurmctld, slurmd and munge (Debian's packages)
#
# The first run of a task is killed, and a result is damaged on the way; the UTXO set must be the one of
# `apus sync` all the same. Without the packages it says so, and is skipped.
set -eu
cd "$(dirname "$0")/.."
repository=$PWD
program=$(realpath "$1")
PATH=$PATH:/usr/sbin:/sbin
for need in slurmctld slurmd munged sbatch; do
	if ! command -v $need >/dev/null; then
		echo "skipped: a job with real Slurm ($need is not installed: slurmctld, slurmd, slurm-client, munge)"
		exit 0
	fi
done

work=$(mktemp -d)
# All processes that are started here are in this list, and end with this script.
started=
end() {
	# shellcheck disable=SC2086
	[ -z "$started" ] || kill $started 2>/dev/null || true
	wait
	rm -rf "$work"
}
trap end EXIT
trap 'exit 1' INT TERM

free_port() {
	python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

mkdir -p "$work/bin" "$work/state" "$work/spool" "$work/munge"
chmod 700 "$work/munge"
head -c 128 /dev/urandom >"$work/munge/key"
chmod 600 "$work/munge/key"
munged --foreground --force --key-file="$work/munge/key" --socket="$work/munge/socket" \
	--pid-file="$work/munge/pid" --log-file="$work/munge/log" --seed-file="$work/munge/seed" \
	>"$work/munge/out" 2>&1 &
started=$!
me=$(id -un)
cat >"$work/slurm.conf" <<END
ClusterName=apus
SlurmctldHost=$(hostname -s)(127.0.0.1)
SlurmUser=$me
SlurmdUser=$me
AuthType=auth/munge
AuthInfo=socket=$work/munge/socket
CryptoType=crypto/munge
SlurmctldPort=$(free_port)
SlurmdPort=$(free_port)
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd.pid
SlurmctldLogFile=$work/slurmctld.log
SlurmdLogFile=$work/slurmd.log
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SchedulerType=sched/builtin
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
MinJobAge=60
NodeName=$(hostname -s) NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=10 State=UP
END
export SLURM_CONF="$work/slurm.conf"
slurmctld -D -i >"$work/slurmctld.out" 2>&1 &
started="$started $!"
slurmd -D >"$work/slurmd.out" 2>&1 &
started="$started $!"

# within SECONDS WORDS COMMAND: waits until the command succeeds.
within() {
	seconds=$1 words=$2
	shift 2
	while ! "$@" >/dev/null 2>&1; do
		seconds=$((seconds - 1))
		if [ $seconds -lt 0 ]; then
			echo "not in time: $words" >&2
			tail -n 20 "$work"/slurm*.log "$work"/*.out "$work"/munge/out >&2
			exit 1
		fi
		sleep 1
	done
}
is_idle() { sinfo -h -o %T | grep -q idle; }
is_done() { [ -z "$(squeue -h)" ]; }
within 60 "a node of Slurm" is_idle

# The first run of one task is killed, as by a lack of memory.
cat >"$work/bin/apus" <<END
#!/bin/sh
if [ "\$2" = match ] && [ "\$6" = 1 ] && mkdir "$work/once" 2>/dev/null; then
	kill -9 \$\$
fi
exec "$program" "\$@"
END
chmod +x "$work/bin/apus"
export PATH="$work/bin:$PATH"
blocks=$repository/apus/data/mainnet-0-14131.dat
job="$work/a job"
apus shard plan --job "$job" --from "$blocks" --spans 3 --partitions 4 --buckets 2 --assumevalid 0 --quiet
cd "$work"
submit() {
	APUS_TASK="--time=2 --output=$work/task-%j.out" sbatch --parsable --time=2 \
		--export="ALL,JOB=$job" "$repository/contrib/slurm/verify.sh" --datadir "$work/new" >/dev/null
	within 300 "the end of the jobs" is_done
}
submit
[ -d "$work/once" ] || { echo "no task was killed" >&2 && exit 1; }
apus sync --quiet --from "$blocks" --datadir "$work/due" --connect 0 --assumevalid 0
muhash() {
	apus txoutset info --hash muhash --json --datadir "$1" | grep '"muhash": "[0-9a-f]\{64\}"'
}
due=$(muhash "$work/due")
if ! grep -q "The blocks up to height 14,131" "$work"/slurm-*.out; then
	tail -n 20 "$work"/slurm-*.out "$work"/task-*.out >&2
	echo "there is no verdict" >&2
	exit 1
fi
[ "$(muhash "$work/new")" = "$due" ] || { echo "another UTXO set" >&2 && exit 1; }

# A damaged index of a result is a task that runs again, by the same script.
done=$(ls "$job"/check-00001-*.done)
cp "$done" "$work/kept"
printf 'damaged' >"$done"
rm -rf "$work/new"
submit
cmp "$done" "$work/kept"
[ "$(muhash "$work/new")" = "$due" ] || { echo "another UTXO set" >&2 && exit 1; }
echo "Slurm $(slurmctld -V | cut -d ' ' -f 2): every stage, a task that was killed, a result that was damaged: the same UTXO set"
