# Prepares the RDMA driver of this guest; sourced by guest-main.sh, whose helpers it uses. It writes what the command
# needs to know to environment.sh. Documented for users in README.md.

environment=$here/environment.sh
: >"$environment"
inform() { echo "export $1=$2" >>"$environment"; }

# With one guest, the RDMA device sits on one end of a veth pair and talks with itself; with two, on the network
# `cable` between them. MTU 4200 leaves room for RDMA packets of 4096 bytes.
device=eth0 own=1 peer=2
[ "$GUEST_ROLE" = b ] && own=2 peer=1
[ "$GUEST_HOSTS" = 1 ] && device=va

# All commands in one process: each start of ip takes a third of a second here. It is called by its path, because
# busybox has an ip of its own, which lacks what is needed.
{
  echo "link set lo up"
  if [ "$GUEST_HOSTS" = 1 ]; then
    echo "link add va mtu 4200 type veth peer name vb mtu 4200"
    echo "link set vb up"
  else
    echo "address add 10.78.0.$own/24 dev eth1"
    echo "address add fd78::$own/64 dev eth1 nodad"
    echo "link set eth1 up"
  fi
  echo "address add 10.77.0.$own/24 dev $device"
  echo "address add fd77::$own/64 dev $device nodad"
  echo "link set $device up"
} | /bin/ip -batch - || give_up "ip could not set up the network"

if [ "$GUEST_HOSTS" = 2 ]; then
  inform VERBMQ_LAN_ADDRESS "10.78.0.$own"
  inform VERBMQ_LAN_PEER_ADDRESS "10.78.0.$peer"
fi
if [ "$GUEST_DRIVER" != none ]; then
  rdma link add "${GUEST_DRIVER}0" type "$GUEST_DRIVER" netdev "$device" || give_up "no $GUEST_DRIVER device on $device"
  inform VERBMQ_RDMA_ADDRESS "10.77.0.$own"
  inform VERBMQ_RDMA_ADDRESS6 "fd77::$own"
  if [ "$GUEST_HOSTS" = 2 ]; then
    inform VERBMQ_RDMA_PEER_ADDRESS "10.77.0.$peer"
    inform VERBMQ_RDMA_PEER_ADDRESS6 "fd77::$peer"
  fi
fi
