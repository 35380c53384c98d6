const MIB = 1024 * 1024;

export const DEFAULT_MAX_BODY_BYTES = 64 * MIB;

/** The largest `maxBodyBytes` that can be asked for: 1 GiB. */
export const MAX_BODY_BYTES = 1024 * MIB;

export const DEFAULT_STREAM_WINDOW_BYTES = 256 * 1024;

/** The largest `streamWindowBytes` that can be asked for: 1 GiB. */
export const MAX_WINDOW_BYTES = 1024 * MIB;

export const DEFAULT_MAX_BACKLOG_BYTES = 64 * MIB;

export const DEFAULT_BACKLOG_TIMEOUT_MS = 10_000;
