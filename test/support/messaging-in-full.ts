/**
 * In the guest, where Node is some fifteen times slower, every run checks calls, queues and topics over RDMA, and that they go on when
 * a path of theirs breaks. That they are attacked and killed there, and all of it on auto, takes too long, and is for who asks for it.
 */
export const MESSAGING_IN_FULL = process.env.VERBMQ_MESSAGING === 'full';
