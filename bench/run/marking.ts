/**
 * What is sent: text, so that contestants whose wire is JSON carry it as a string of the same length. It begins with the
 * message's number and ends with a digit of its complement.
 */

/** Five bits each, from `0` to `O`: nothing that JSON escapes. */
const FIRST_DIGIT = 48;
const DIGITS = 7;
const FILLING = 120;
/** A long message that travels in pieces is marked once in so many bytes: a piece in another's place is seen. */
const PART_BYTES = 16 * 1024;

/** A message that has no number yet. @param bytes at least 8 */
export function createMessage(bytes: number): Uint8Array {
  return new Uint8Array(bytes).fill(FILLING);
}

/** @param number below 2 ** 32 */
export function mark(message: Uint8Array, number: number): void {
  markPart(message, 0, message.length, number);
}

/** @throws Error when `data` is not the message `number` of `bytes` bytes. */
export function checkAnswer(data: Uint8Array, bytes: number, number: number): void {
  if (data.length !== bytes) throw new Error(`answer ${number} has ${data.length} bytes instead of ${bytes}`);
  checkPart(data, 0, bytes, number);
}

/** Marks each part of a message that may be long. */
export function markParts(message: Uint8Array, number: number): void {
  const { length } = message;
  for (let at = 0; at < length; at += PART_BYTES) {
    markPart(message, at, Math.min(at + PART_BYTES, length), number);
  }
}

/** @throws Error when not every part of `data` is marked with `number`. */
export function checkParts(data: Uint8Array, number: number): void {
  const { length } = data;
  for (let at = 0; at < length; at += PART_BYTES) {
    checkPart(data, at, Math.min(at + PART_BYTES, length), number);
  }
}

// Without a view of each part: making 64 of them for a message of 1 MiB takes several times as long as the marks.
function markPart(message: Uint8Array, start: number, end: number, number: number): void {
  for (let i = 0; i < DIGITS; i++) message[start + i] = digit(number, i);
  message[end - 1] = digit(~number, 0);
}

function checkPart(data: Uint8Array, start: number, end: number, number: number): void {
  let marked = data[end - 1] === digit(~number, 0);
  for (let i = 0; i < DIGITS; i++) marked &&= data[start + i] === digit(number, i);
  if (!marked) throw new Error(`answer ${number} does not have the content of message ${number}`);
}

/** The lowest digit first. The last one holds the two bits that are left. */
function digit(number: number, index: number): number {
  return FIRST_DIGIT + ((number >>> (5 * index)) & 31);
}
