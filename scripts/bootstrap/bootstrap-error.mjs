/** A step failed for a reason that its message tells in full: the stack is of no interest. */
export class BootstrapError extends Error {}
