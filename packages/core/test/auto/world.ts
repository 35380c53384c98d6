import { FrameKind, getUint32, HEADER_BYTES, isNumbered, putUint32 } from '../../src/auto/frames.js';
import { BASE, type PathNumber, Session } from '../../src/auto/session.js';
import type { ShortWriter } from '../../src/auto/session-hooks.js';
import { KEPT, NOT_KEPT, NOT_TAKEN } from '../../src/contract/connection-hooks.js';
import type { KeptSends } from '../../src/contract/kept-sends.js';

export const SIDES = ['client', 'server'] as const;
export type SideName = (typeof SIDES)[number];

/** What is under way on a path: frames, and on a base connection the two words of the resume before them. */
type Item = Uint8Array | { readonly hello: number } | 'welcome';

/** Two directions that are in order, and break: from some moment on each may lose all, and later its ends learn of it. */
class Path {
  readonly toward: Record<SideName, Item[]> = { client: [], server: [] };
  /** Whether a direction loses everything from now on. */
  readonly lost: Record<SideName, boolean> = { client: false, server: false };
  /** Whether an end still uses it. */
  readonly up: Record<SideName, boolean> = { client: true, server: true };
  readonly full: Record<SideName, boolean> = { client: false, server: false };
}

const other = (side: SideName): SideName => (side === 'client' ? 'server' : 'client');

/** Writes short messages, and keeps them in a few slots or not at all. */
class ShortPath implements ShortWriter {
  static readonly #slotBytes = 128;
  static readonly #slots = 3;
  readonly #put: (frame: Uint8Array) => boolean;
  readonly #keeps: boolean;
  #kept: Uint8Array[] = [];
  #takeBack: (sent: KeptSends) => void = () => {};

  constructor(put: (frame: Uint8Array) => boolean, keeps: boolean) {
    this.#put = put;
    this.#keeps = keeps;
  }

  keepSent(takeBack: (sent: KeptSends) => void): void {
    this.#takeBack = takeBack;
  }

  giveBackSent(): void {
    const kept = this.#kept;
    if (kept.length === 0) return;
    this.#kept = [];
    this.#takeBack({ count: kept.length, at: (index) => kept[index] as Uint8Array });
    for (const frame of kept) frame.fill(0xee); // they are not there any more
  }

  trySendBehindWords(a: number, b: number, c: number, d: number, data: Uint8Array): number {
    const frame = new Uint8Array(HEADER_BYTES + data.length);
    for (const [index, word] of [a, b, c, d].entries()) putUint32(frame, 4 * index, word);
    frame.set(data, HEADER_BYTES);
    const keeps = this.#keeps && frame.length <= ShortPath.#slotBytes;
    if (!keeps || this.#kept.length === ShortPath.#slots) this.giveBackSent();
    if (!this.#put(frame)) return NOT_TAKEN;
    if (!keeps) return NOT_KEPT;
    this.#kept.push(frame.slice());
    return KEPT;
  }
}

/** Two sessions, and between them one base connection and any number of fast ones, one after the other. */
export class World {
  readonly sessions: Record<SideName, Session>;
  readonly sent: Record<SideName, number> = { client: 0, server: 0 };
  readonly got: Record<SideName, number> = { client: 0, server: 0 };
  readonly #unread: Record<SideName, number[]> = { client: [], server: [] };
  readonly #fast: Path[] = [];
  readonly #switches: { readonly to: SideName; readonly frame: Uint8Array }[] = [];
  readonly #seen: Record<SideName, Uint8Array[]> = { client: [], server: [] };
  #base = new Path();

  /** @param requiresFast whether no message may take the base connection */
  constructor(firstNumber: number, windowBytes: number, requiresFast: boolean) {
    const make = (side: SideName): Session =>
      new Session(
        { windowBytes, highWaterMarkBytes: 300, firstNumber, requiresFast },
        {
          writable: (path) => this.#path(path).up[side] && !this.#path(path).full[side],
          write: (path, frame) => {
            if (requiresFast && path === BASE && isNumbered(frame[0] as number))
              throw new Error(`${side} wrote a message on the base connection`);
            this.#put(this.#path(path), side, frame);
          },
          shortWriter: (number) => {
            const path = this.#path(number);
            if (!path.up[side]) return undefined;
            if (requiresFast && number === BASE)
              throw new Error(`${side} would write messages on the base connection`);
            return new ShortPath(
              (frame) => {
                const taken = path.up[side] && !path.full[side];
                if (taken) this.#put(path, side, frame);
                return taken;
              },
              number % 2 === 1,
            );
          },
          control: (frame) => {
            if (this.#base.up[side]) this.#put(this.#base, side, frame);
          },
          alive: (path) => this.#fast[path - 1]?.up[side] ?? false,
          moved: (path) => this.#moved(side, path),
        },
      );
    this.sessions = { client: make('client'), server: make('server') };
  }

  // ---- what may happen ------------------------------------------------------------------------------------------

  send(side: SideName, padding: number): void {
    const session = this.sessions[side];
    if (!session.hasRoom) return;
    const frame = new Uint8Array(HEADER_BYTES + 4 + padding);
    putUint32(frame, HEADER_BYTES, this.sent[side]++);
    if (padding % 2 === 0) session.submit(FrameKind.DATA, frame, 1);
    else {
      // The copy of a short one lies somewhere in a chunk, between others.
      const chunk = new Uint8Array(3 + frame.length + 5);
      const copies = { chunk, start: 3, single: (data: Uint8Array) => chunk.set(data, 3 + HEADER_BYTES) };
      if (!session.sendShort(frame.slice(HEADER_BYTES), copies)) session.submit(FrameKind.DATA, frame, 1);
    }
  }

  read(side: SideName): void {
    const bytes = this.#unread[side].shift();
    if (bytes !== undefined) this.sessions[side].consumed(bytes);
  }

  tell(side: SideName): void {
    this.sessions[side].tell();
  }

  /** The next thing on some path arrives. */
  deliver(side: SideName, which: number): boolean {
    const paths = [this.#base, ...this.#fast].filter((path) => path.toward[side].length > 0 && path.up[side]);
    const path = paths[which % paths.length];
    if (path === undefined) return false;
    this.#arrive(path, side, path.toward[side].shift() as Item);
    return true;
  }

  /** A path takes nothing for a while, or something again. */
  throttle(side: SideName, which: number): void {
    const path = [this.#base, ...this.#fast][which % (this.#fast.length + 1)] as Path;
    path.full[side] = !path.full[side];
    if (!path.full[side]) this.sessions[side].pump();
  }

  /** What is under way in a direction is lost, and all that follows; nobody knows yet. */
  lose(side: SideName, which: number): void {
    const path = [this.#base, ...this.#fast][which % (this.#fast.length + 1)] as Path;
    path.lost[side] = true;
    path.toward[side] = [];
  }

  /** A side finds that a path is broken, rightly or not. The other one's direction is then dead too. */
  notice(side: SideName, which: number): void {
    const at = which % (this.#fast.length + 1);
    const path = at === 0 ? this.#base : (this.#fast[at - 1] as Path);
    if (!path.up[side]) return;
    path.up[side] = false;
    path.toward[side] = [];
    path.lost[side] = true;
    if (at === 0) this.sessions[side].baseLost();
    else this.sessions[side].fastLost(at);
  }

  /** A new fast connection has been proved. */
  connectFast(): void {
    if (this.#fast.some((path) => path.up.client)) return;
    this.#fast.push(new Path());
    this.propose();
  }

  propose(): void {
    if (this.#fast.length > 0) this.sessions.client.propose(this.#fast.length);
  }

  /** The client that has lost its base connection opens another. */
  resume(): void {
    if (this.#base.up.client) return;
    // What the server still has of the old one may arrive before it hears of the new one: it keeps its own end.
    const old = this.#base;
    const fresh = new Path();
    fresh.toward.server.push({ hello: this.sessions.client.epoch });
    fresh.up.server = old.up.server;
    if (old.up.server) {
      fresh.toward.server.unshift(...old.toward.server);
      this.sessions.server.baseLost(); // what it says from now on is not heard
    }
    fresh.up.server = true;
    this.#base = fresh;
  }

  /** A SWITCH that was said once is heard again. */
  repeatSwitch(which: number): void {
    const said = this.#switches[which % Math.max(1, this.#switches.length)];
    if (said !== undefined && this.#base.up[said.to]) this.sessions[said.to].switched(said.frame);
  }

  /** A numbered frame that came once comes again. */
  repeatFrame(side: SideName, which: number): void {
    const frame = this.#seen[side][which % Math.max(1, this.#seen[side].length)];
    if (frame !== undefined) this.#frame(side, frame);
  }

  /** From now on nothing breaks: everything must arrive. Answers whether it came to rest. */
  heal(): boolean {
    for (const path of [this.#base, ...this.#fast])
      for (const side of SIDES) if (path.lost[side]) for (const each of SIDES) this.#noticePath(each, path);
    for (const path of [this.#base, ...this.#fast]) {
      if (path.up.client !== path.up.server) for (const side of SIDES) this.#noticePath(side, path);
      for (const side of SIDES) {
        path.full[side] = false;
        this.sessions[side].pump();
      }
    }
    if (!this.#base.up.client) this.resume();
    for (let step = 0; step < 100_000; step++) {
      let moved = false;
      for (const side of SIDES) {
        moved = this.deliver(side, step) || moved;
        while (this.#unread[side].length > 0) this.read(side);
      }
      if (moved) continue;
      for (const side of SIDES) if (this.sessions[side].flowing) this.sessions[side].tell();
      if (SIDES.every((side) => this.#queued(side) === 0)) return true;
    }
    return false;
  }

  // ---- private -------------------------------------------------------------------------------------------------

  #queued(side: SideName): number {
    return [this.#base, ...this.#fast].reduce(
      (sum, path) => sum + (path.up[side] ? path.toward[side].length : 0),
      0,
    );
  }

  #noticePath(side: SideName, path: Path): void {
    this.notice(side, path === this.#base ? 0 : this.#fast.indexOf(path) + 1);
  }

  #path(path: PathNumber): Path {
    return path === BASE ? this.#base : (this.#fast[path - 1] as Path);
  }

  #put(path: Path, from: SideName, frame: Uint8Array): void {
    const to = other(from);
    if (path.up[from] && !path.lost[to]) path.toward[to].push(frame.slice());
  }

  #moved(side: SideName, path: PathNumber): void {
    for (const [index, fast] of this.#fast.entries()) {
      if (index + 1 !== path && fast.up[side] && (side === 'client' || index + 1 < this.#fast.length)) {
        fast.up[side] = false;
        fast.toward[side] = [];
      }
    }
  }

  #arrive(path: Path, side: SideName, item: Item): void {
    if (item === 'welcome') {
      this.sessions.client.baseResumed();
    } else if (!(item instanceof Uint8Array)) {
      this.sessions.server.baseLost();
      if (!path.lost.client) path.toward.client.push('welcome');
      this.sessions.server.baseResumed(item.hello);
    } else this.#frame(side, item);
  }

  /** By either way in: half of the messages are handled at once. */
  #accept(side: SideName, frame: Uint8Array): boolean {
    const session = this.sessions[side];
    const header = new Int32Array(frame.slice(0, HEADER_BYTES).buffer);
    if ((frame.length & 2) === 0 && session.handle(header, 0, frame.length - HEADER_BYTES)) return true;
    if (!session.accept(frame)) return false;
    this.#unread[side].push(frame.length - HEADER_BYTES);
    return true;
  }

  #frame(side: SideName, frame: Uint8Array): void {
    const session = this.sessions[side];
    if (frame[0] === FrameKind.SWITCH) {
      this.#switches.push({ to: side, frame });
      session.switched(frame);
    } else if (frame[0] === FrameKind.ACK) session.acknowledged(frame);
    else if (this.#accept(side, frame)) {
      const number = getUint32(frame, HEADER_BYTES);
      if (number !== this.got[side])
        throw new Error(`${side} got message ${number} where ${this.got[side]} was due`);
      this.got[side]++;
      this.#seen[side].push(frame);
      session.settle();
    }
  }
}
