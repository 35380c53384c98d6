# Prepares the RDMA driver of this guest; sourced by guest-main.sh, whose helpers it uses. It writes what the command
# needs to know to environment.sh. Documented for users in README.md.

environment=$here/environment.sh
: >"$environment"
inform() { echo "export $1=$2" >>"$environment"; }

must() { "$@" || give_up "failed: $*"; }

# MTU 4200 leaves room for RDMA packets of 4096 bytes.
veth_pair='link add va mtu 4200 type veth peer name vb mtu 4200
address add 10.77.0.1/24 dev va
address add fd77::1/64 dev va nodad
link set va up
link set vb up'

# All commands in one process: each start of ip takes a third of a second here. Debian's ip, by its path, because
# busybox has one that lacks what is needed.
network() {
  printf '%s\n' 'link set lo up' "$@" | /bin/ip -batch - || give_up "ip could not set up the network: $*"
}

case $GUEST_DRIVER in
  rxe)
    network "$veth_pair"
    must rdma link add rxe0 type rxe netdev va
    inform VERBMQ_RDMA_ADDRESS 10.77.0.1
    inform VERBMQ_RDMA_ADDRESS6 fd77::1
    ;;
  siw)
    network "$veth_pair"
    must rdma link add siw0 type siw netdev va
    inform VERBMQ_RDMA_ADDRESS 10.77.0.1
    inform VERBMQ_RDMA_ADDRESS6 fd77::1
    ;;
  none)
    network
    ;;
esac
