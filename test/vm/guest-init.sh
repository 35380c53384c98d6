#!/bin/busybox sh
# The first program of the guest, from the initramfs: loads modules, puts the machine's own root under an overlay in
# memory, and hands over to the program of this run (guest-main.sh). Kept small: every process here is emulated.

PATH=/bin
for applet in mount mkdir cp cat insmod poweroff switch_root; do
  alias "$applet=/bin/busybox $applet"
done

mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev

run= driver= trial=
for word in $(cat /proc/cmdline); do
  case $word in
    verbmq.run=*) run=${word#*=} ;;
    verbmq.driver=*) driver=${word#*=} ;;
    verbmq.trial) trial=yes ;;
  esac
done

if [ "$trial" ]; then
  echo "verbmq-trial-answer"
  poweroff -f
fi

# One file of module names for each group, in loading order, dependencies included. A module that the processor does
# not support (an accelerated checksum) may refuse; what then lacks shows itself in the next step.
load() {
  while read -r module; do
    insmod "/modules/$module" || echo "insmod $module: refused"
  done <"/modules/$1.list"
}
load base
[ "$driver" = none ] || load "$driver"

# cache=loose: the guest may keep what it has read. Nobody changes files under a running guest on purpose.
mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose,msize=524288 root /lower
mount -t tmpfs -o mode=755 memory /memory
mkdir /memory/upper /memory/work
mount -t overlay -o lowerdir=/lower,upperdir=/memory/upper,workdir=/memory/work overlay /root

for directory in proc sys dev; do
  mount --move "/$directory" "/root/$directory"
done
mkdir -p /root/run/verbmq-guest
cp /bin/busybox /root/run/verbmq-guest/busybox
exec /bin/busybox switch_root /root /run/verbmq-guest/busybox sh "$run/main.sh" "$run"
