# Prepares the RDMA driver of this guest; sourced by guest-main.sh, whose helpers it uses. It writes what the command
# needs to know to environment.sh. Documented for users in README.md.

environment=$here/environment.sh
: >"$environment"
inform() { echo "export $1=$2" >>"$environment"; }

# busybox has an ip of its own, which lacks what is needed: hence the paths.
must() { "$@" || give_up "failed: $*"; }

/bin/ip link set lo up

# MTU 4200 leaves room for RDMA packets of 4096 bytes.
veth_pair() {
  must /bin/ip link add va mtu 4200 type veth peer name vb mtu 4200
  must /bin/ip address add 10.77.0.1/24 dev va
  must /bin/ip address add fd77::1/64 dev va nodad
  must /bin/ip link set va up
  must /bin/ip link set vb up
}

case $GUEST_DRIVER in
  rxe)
    veth_pair
    must rdma link add rxe0 type rxe netdev va
    inform VERBMQ_RDMA_ADDRESS 10.77.0.1
    inform VERBMQ_RDMA_ADDRESS6 fd77::1
    ;;
  siw)
    veth_pair
    must rdma link add siw0 type siw netdev va
    inform VERBMQ_RDMA_ADDRESS 10.77.0.1
    inform VERBMQ_RDMA_ADDRESS6 fd77::1
    ;;
esac
