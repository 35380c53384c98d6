/**
 * verbmq: messages over RDMA and TCP. This package is the one to install: it puts the contract, both transports and
 * the choice between them by URL together.
 * @module
 */
export * from '@verbmq/core';
export { RdmaTransport } from '@verbmq/native';
export { TcpTransport } from '@verbmq/tcp-fallback';
export { connect, createTransport, listen } from './transports.js';
