/** Where the service is. This line chooses the transport, for all of the example: tcp://, unix://, rdma://, or verbmq:// for both. */
export const url = process.env.VERBMQ_URL ?? 'tcp://127.0.0.1:7000';
