# Process 1 of the guest once its root is mounted. Started as: busybox sh main.sh RUN_DIRECTORY
#
# RUN_DIRECTORY is the directory of this run on the machine, seen through the shared root: config.sh (the settings),
# network.sh (the driver's preparation) and command.sh (the command with its environment). With the machine it talks
# over virtio-serial ports: `status` (lines to the machine), `control` (lines from it), `out` and `err` (the command's
# streams), `files` (a tar of the results), `cable` (requests of the command, see cable.mjs).

run=$1
here=/run/verbmq-guest
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

for applet in cat mkdir mkfifo mount ps poweroff setsid sleep tar hostname; do
  alias "$applet=$here/busybox $applet"
done

. "$run/config.sh"

# Prints the device file of the port with the given name. Ports appear a moment after their bus.
port() {
  tries=0
  while [ $tries -lt 200 ]; do
    for entry in /sys/class/virtio-ports/*; do
      if [ "$(cat "$entry/name" 2>/dev/null)" = "verbmq.$1" ]; then
        echo "/dev/${entry##*/}"
        return
      fi
    done
    tries=$((tries + 1))
    sleep 0.05
  done
}

exec 3>"$(port status)" || poweroff -f
say() { echo "$*" >&3; }
give_up() {
  say "failed $*"
  sleep 30
  poweroff -f
}

mkdir -p /dev/pts /dev/shm "$here/out"
mount -t devpts devpts /dev/pts
mount -t tmpfs -o mode=1777 shm /dev/shm
mount -t cgroup2 cgroup /sys/fs/cgroup && mkdir /sys/fs/cgroup/command || give_up "no cgroup for the command"
hostname "verbmq-$GUEST_ROLE"

. "$run/network.sh"

# The command's streams go through pipes, as in any other run: a port can be opened by one process only, a pipe by many.
# $GUEST_END_MARK closes each stream, so that the machine knows that it has all of it.
mkfifo "$here/stdout" "$here/stderr"
forward() {
  { cat "$here/$1"; printf "$GUEST_END_MARK"; } >"$2" &
}
forward stdout "$(port out)"
out_forwarder=$!
forward stderr "$(port err)"
err_forwarder=$!

{
  echo "export VERBMQ_GUEST_OUT=$here/out"
  echo "export VERBMQ_GUEST_CABLE=$(port cable)"
} >>"$here/environment.sh"

while sleep 5; do say alive; done &

# The command leads a session and a control group of its own, so that everything it started can be ended.
setsid /bin/sh "$run/command.sh" </dev/null >"$here/stdout" 2>"$here/stderr" 3>&- &
command=$!
say ready

{
  while read -r word; do
    case $word in
      INT | TERM) kill -s "$word" -- "-$command" ;;
      STOP)
        # What ran when the time was over. Kernel threads have names in brackets.
        ps -o pid,ppid,stat,args | while read -r line; do
          case $line in *"["*"]" | *verbmq-guest/busybox*) ;; *) say "process $line" ;; esac
        done
        echo 1 >/sys/fs/cgroup/command/cgroup.kill
        ;;
    esac
  done
  # The machine's side is gone.
  poweroff -f
} <"$(port control)" &

wait "$command"
status=$?
echo 1 >/sys/fs/cgroup/command/cgroup.kill
say "exit $status"

if [ "$GUEST_WANTS_FILES" = yes ]; then
  { tar -c -C "$here/out" .; printf "$GUEST_END_MARK"; } >"$(port files)"
fi
wait "$out_forwarder"
wait "$err_forwarder"
# The machine ends the guest when it has everything.
while :; do sleep 60; done
