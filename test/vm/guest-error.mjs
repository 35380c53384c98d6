/**
 * A run that failed for a reason outside of the command: a missing package, a guest that did not boot or died, the
 * time limit. The message is the report for the user.
 */
export class GuestError extends Error {
  /**
   * @param {string} message
   * @param {number} [exitStatus] 125, or 124 for the time limit
   */
  constructor(message, exitStatus = 125) {
    super(message);
    this.exitStatus = exitStatus;
  }
}
