import 'reflect-metadata';
import type { AddressInfo, Server } from 'node:net';
import { Controller, type INestMicroservice, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import {
  ClientProxyFactory,
  MessagePattern,
  type MicroserviceOptions,
  Transport,
} from '@nestjs/microservices';
import { firstValueFrom } from 'rxjs';
import type { EchoContestant } from '../contestants/contestant.js';
import { fromText, toText } from './text.js';

class EchoController {
  echo(text: string): string {
    return text;
  }
}
class EchoModule {}

// The decorators as functions, so that the compiler needs no settings of its own for this file.
const { prototype } = EchoController;
MessagePattern('echo')(prototype, 'echo', Object.getOwnPropertyDescriptor(prototype, 'echo')!);
Controller()(EchoController);
Module({ controllers: [EchoController] })(EchoModule);

const HOST = '127.0.0.1';

/**
 * NestJS microservices over TCP. Its wire is JSON; bytes travel as text. Its documentation has no advice for speed; its logger is
 * off.
 */
export function nestjs(): EchoContestant {
  let app: INestMicroservice | undefined;
  return {
    async listen() {
      const options = { transport: Transport.TCP, options: { host: HOST, port: 0 }, logger: false } as const;
      app = await NestFactory.createMicroservice<MicroserviceOptions>(EchoModule, options);
      await app.listen();
      return { address: String((app.unwrap<Server>().address() as AddressInfo).port) };
    },

    async connect(address) {
      const options = { host: HOST, port: Number(address) };
      const client = ClientProxyFactory.create({ transport: Transport.TCP, options });
      await client.connect();
      return {
        call: async (data) => fromText(await firstValueFrom(client.send<string>('echo', toText(data)))),
        async close() {
          client.close();
        },
      };
    },

    async close() {
      await app?.close();
    },
  };
}
