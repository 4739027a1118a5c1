// The texts of the page, the messages for the server's error codes, and formatters.

export const TEXT = {
  home: "Home",
  library: "Library",
  guide: "Guide",
  settings: "Settings",
  loading: "Loading…",
  more: "Show more",
  tryAgain: "Try again",
  emptyFolder: "This folder is empty.",
  noRoots: "No media folders yet. Add one in the server’s configuration (or --root).",
  signOut: "Sign out",
  signedOut: "You’ve been signed out. Sign in to continue.",
  offline: "Can’t reach the server. Check that it is running.",
  preparing: "Preparing…",
  preparingSince: (seconds) => `Still preparing (${seconds} s)…`,
  busy: "The server is busy. Waiting for a free slot…",
  slotsInUse: "Someone else is watching something that needs converting. Yours starts when they finish.",
  tuningIn: "Tuning in…",
  directPlay: "Direct play",
  off: "Off",
  original: "Original",
  automatic: "Automatic",
  // Home
  continueWatching: "Continue watching",
  nextUp: "Next up",
  onNow: "On now",
  books: "Audiobooks",
  watchAgain: "Watch again",
  emptyHome: "Nothing here yet. Pick something from your library.",
  openLibrary: "Open the library",
  unavailable: "Not available",
  left: (time) => `${time} left`,
  until: (time) => `until ${time}`,
  nextEpisode: "Next episode",
  nextAt: (time, title) => `Next, ${time}: ${title}`,
  // Library and file page
  backTo: (folder) => `Back to ${folder}`,
  search: "Search",
  searchHere: "Search this folder and its subfolders",
  searching: "Searching…",
  found: (count) => `${count} ${count === 1 ? "result" : "results"}`,
  foundNone: (words) => `No results for “${words}”.`,
  play: "Play",
  resume: (time) => `Resume at ${time}`,
  playFromStart: "Play from start",
  listen: "Listen",
  playAsAudiobook: "Play as audiobook",
  details: "Details",
  markWatched: "Mark as watched",
  clearProgress: "Clear progress",
  file: "File",
  tracks: "Tracks",
  // Player
  backToFolder: "Back to folder",
  back: "Back",
  position: "Position",
  pause: "Pause",
  rewind: "Back 10 s",
  forward: "Forward 30 s",
  previousChapter: "Previous chapter",
  nextChapter: "Next chapter",
  video: "Video",
  audio: "Audio",
  segments: "Segments",
  streamCopied: "as in the file",
  streamConverted: (reasons) => `converted (${reasons})`,
  converted: "converted",
  subtitles: "Subtitles",
  quality: "Quality",
  speed: "Speed",
  chapters: "Chapters",
  chapter: (n) => `Chapter ${n}`,
  playbackInfo: "Playback info",
  fullScreen: "Full screen",
  skip: (title) => `Skip ${title}`,
  next: "Next",
  nextTitle: (title) => `Next: ${title}`,
  nextIn: (seconds, title) => `Next in ${seconds} s: ${title}`,
  earlierPositions: "Earlier positions",
  sleepTimer: "Sleep timer",
  minutes: (n) => `${n} minutes`,
  chapterEnd: "End of chapter",
  history: "History",
  undoJump: (time) => `Undo jump (${time})`,
  // Guide and channels
  noChannels: "No channels yet",
  newChannel: "New channel",
  now: "Now",
  previousDay: "Previous day",
  nextDay: "Next day",
  nothingScheduled: "Nothing scheduled",
  watch: "Watch",
  watchFromStart: "Watch from start",
  goToLive: "Go to live",
  channelUp: "Channel up",
  channelDown: "Channel down",
  lastChannel: "Last channel",
  skipProgramme: "Skip",
  skippingTo: (title) => `Skipping to ${title}…`,
  tuning: (name) => `Tuning ${name}…`,
  tuningSince: (name, seconds) => `Still tuning ${name} (${seconds} s)…`,
  reconnecting: "Lost the channel. Reconnecting…",
  noSuchChannel: (number) => `No channel ${number}`,
  // Set-up
  step: (n, of) => `Step ${n} of ${of}`,
  firstChannel: "Create your first channel",
  firstChannelWhy: "It plays a folder around the clock, like a TV channel. You can add more later.",
  channelName: "Name",
  skipForNow: "Skip for now",
  channelOnAir: (name) => `“${name}” is now on air.`,
  // Settings
  playing: "Now playing",
  server: "Server",
  pipelines: "Pipelines",
  log: "Log",
  channels: "Channels",
  users: "Users",
  devices: "Devices",
  tokens: "Players and TVs",
  account: "Password",
  remove: "Remove",
  confirmRemove: "Tap again to remove",
  save: "Save",
  saved: "Saved.",
  add: "Add",
  preview: "Preview",
  name: "Name",
  since: "Since",
  password: "Password",
  currentPassword: "Current password",
  wrongCurrentPassword: "Your current password isn’t right.",
  newPassword: "New password",
  keepTokens: "Keep players and TVs connected",
  tokensOf: (name) => `Players and TVs of ${name}`,
  role: "Role",
  roleAdmin: "Administrator",
  roleViewer: "Viewer",
  device: "Device",
  address: "Address",
  lastActive: "Last active",
  thisDevice: (name) => `${name} (this device)`,
  // Now playing
  sessions: "Streams",
  user: "User",
  title: "Title",
  status: "Status",
  channel: "Channel",
  viewers: "Viewers",
  stop: "Stop",
  confirmStop: "Tap again to stop",
  copied: "original",
  noSessions: "No one is streaming right now.",
  noWatchedChannels: "No channel is being watched.",
  conversions: (now, max) => `Conversions: ${now} of ${max}`,
  // Server
  responseTime: "Response time",
  ready: "Ready",
  load: "Load",
  queue: "Queue",
  converter: "Converter",
  mediaReader: "Media reader",
  backend: "Backend",
  encoders: "Encoders",
  none: "none",
  rejectedEncoders: "Not available on this machine",
  lastFailure: "Last failure",
  workers: "Workers",
  workerCounts: ({ ready, busy, restarted }) => `${ready} ready, ${busy} busy, ${restarted} restarted`,
  noWorkers: "none: a crash of the media reader ends the server",
  sandbox: "Confined by",
  lastCrash: "Last crash",
  quarantine: "Files in quarantine",
  quarantineWhy: "These files crashed the media reader twice. Only ffmpeg opens them.",
  noQuarantine: "No files in quarantine.",
  cause: "Cause",
  confirmTryAgain: "Tap again to try",
  noPipelines: "No active pipelines.",
  asText: "As text",
  logEmpty: "No log entries yet.",
  logLevel: "Level",
  levels: { INFO: "All", WARN: "Warnings and errors", ERROR: "Errors only" },
  // Players that cannot sign in
  tokensWhy: "Connect Kodi, VLC or a TV with a personal link.",
  noTokens: "No devices connected yet.",
  lastUsed: "Last used",
  deviceName: "Device name",
  copyTheseLinks: (name) => `Copy these into ${name} now; they won’t be shown again. They give access to live TV only.`,
  m3u: "Playlist (M3U)",
  xmltv: "Guide (XMLTV)",
  qr: (label) => `${label} as a QR code`,
  copy: "Copy",
  copiedToClipboard: "Copied",
  // External channels
  sources: "Sources",
  sourcesWhy: "Before adding external channels, note where they come from and that you may use them. Withdrawing that permission stops them immediately.",
  addStream: "Add a stream",
  stream: "Stream",
  streamUrl: "Stream address",
  provider: "Provider",
  terms: "terms",
  permission: "Permission",
  confirmedBy: "Confirmed by",
  confirmed: (by, at) => `${by}, ${at}`,
  withdrawn: (by, at) => `withdrawn by ${by}, ${at}`,
  withdraw: "Withdraw",
  confirmWithdraw: "Tap again to withdraw",
  confirmPermission: "Confirm permission",
  confirmAuthorised: "I am authorised to show this",
  termsUrl: "Link to terms",
  bases: {
    "own-content": "own content", "public-domain": "public domain", licensed: "licensed",
    "provider-subscription": "subscription with a provider", other: "other",
  },
  statement: "Describe your permission (at least 20 characters)",
  recordingBasis: "Recording permission (leave empty to disallow)",
  attest: "I am authorised to show this, and these details are true.",
  permissionLog: "Permission log",
  permissionLogEmpty: "No entries yet.",
  when: "When",
  action: "Action",
  actions: {
    attested: "permission confirmed", changed: "changed", withdrawn: "permission withdrawn", removed: "removed",
  },
  // Imported playlists and guides
  addImport: "Import a playlist or guide",
  importKinds: { m3u: "Channels (M3U)", xmltv: "Guide (XMLTV)" },
  uploadedFile: "uploaded file",
  importStates: { ready: "ready", refreshing: "refreshing", failed: "failed", withdrawn: "withdrawn" },
  importCounts: ({ entries, channels, programmes, skipped }) =>
    `${entries} entries, ${channels} channels, ${programmes} programmes, ${skipped} skipped`,
  contents: "Contents",
  lastRefresh: "Last refresh",
  refresh: "Refresh",
  importKind: "Type",
  importUrl: "Playlist or guide address",
  orUpload: "or upload a file",
  groupFilter: "Groups (comma-separated)",
  allGroups: "all",
  numberFrom: "First channel number",
  listNumbers: "from the list",
  refreshHours: "Refresh every (hours)",
  never: "never",
  import: "Import",
  groups: "Groups",
  line: "Line",
  skipped: "Skipped",
  reason: "Reason",
  // Recordings
  recordings: "Recordings",
  recordingsWhy: "Record programmes from the guide or while watching live.",
  noRecordings: "No recordings yet.",
  recordingStates: { scheduled: "Scheduled", recording: "Recording", complete: "Completed", failed: "Failed", cancelled: "Cancelled" },
  conflicts: (count) => `${count} ${count === 1 ? "conflict" : "conflicts"}`,
  missing: (time) => `${time} missing`,
  series: "Series recordings",
  newEpisodesOnly: "new episodes only",
  cancel: "Cancel",
  confirmCancel: "Tap again to cancel",
  removeFromList: "Remove from list",
  deleteFile: "Delete file",
  record: "Record",
  // Channel editor
  modes: {
    shuffle: "Shuffle", sequential: "In order", shuffleInOrder: "Shuffle shows, episodes in order",
    random: "Random (repeats possible)", weighted: "Weighted",
  },
  disabled: (name) => `${name} (disabled)`,
  edit: "Edit",
  number: "Number",
  automaticNumber: "automatic",
  category: "Category",
  order: "Order",
  enabled: "Enabled",
  alwaysOn: "Always running (instant start)",
  onDemand: "Plays only while someone watches",
  dailySchedule: "This channel follows a daily schedule set through the API.",
  content: "Content",
  open: "Open",
  openNamed: (name) => `Open ${name}`,
};

const STATES = {
  starting: "starting", running: "playing", paused: "buffered ahead", complete: "finished", failed: "failed", stopped: "stopped",
  live: "live", warm: "on standby", idle: "idle", playing: "running", ready: "ready", null: "stopping",
};

/** The label of a session's, channel's or pipeline's state. */
export const stateLabel = (state) => STATES[state] ?? state;

const ERRORS = {
  UNAUTHORIZED: TEXT.signedOut,
  TOKEN_EXPIRED: TEXT.signedOut,
  INVALID_CREDENTIALS: "Wrong name or password.",
  RATE_LIMITED: "Too many attempts. Wait a minute, then try again.",
  FORBIDDEN: "Not part of the library.",
  NOT_FOUND: "This is no longer available.",
  UNSUPPORTED_MEDIA_TYPE: "This is not a media file.",
  UNPLAYABLE_MEDIA: "This file can’t be played.",
  TOO_MANY_SESSIONS: "You’re playing on too many screens. Stop one of them first.",
  TRANSCODER_BUSY: "All conversion slots are in use. Try again in a moment.",
  PROBE_TIMED_OUT: "Reading the file took too long. Try again in a moment.",
  TRANSCODER_UNAVAILABLE: "This file needs converting, but ffmpeg is missing on the server.",
  STORAGE_TIMEOUT: "The drive isn’t responding.",
  SEGMENT_TIMEOUT: "The server is too slow for this quality. Choose a lower one.",
  DECODE_FAILED: "The file is damaged here and can’t be decoded.",
  ENCODER_FAILED: "The conversion failed on the server.",
  SOURCE_READ_FAILED: "This file can’t be read any more.",
  SOURCE_CHANGED: "The file changed during playback.",
  SESSION_ENDED: "Playback stopped after a long pause. Press play to continue.",
  SESSION_NOT_FOUND: "Playback stopped after a long pause. Press play to continue.",
  CHANNEL_NOT_FOUND: "This channel no longer exists.",
  RIGHTS_BASIS_REQUIRED: "Permission details are missing.",
  RIGHTS_WITHDRAWN: "Permission was withdrawn.",
  CHANNEL_UNAVAILABLE: "The channel can’t start right now.",
  STORAGE_FULL: "The server’s disk is full. Nothing can be saved.",
  INTERNAL: "Something went wrong on the server. Its log has the details.",
};

/** The message for an error. */
export function errorText(error) {
  return ERRORS[error.code] ?? error.message ?? String(error);
}

/** The message while a request is retried because of a temporary error. */
export function waitText({ code, details }) {
  if (code === "CHANNEL_UNAVAILABLE") return TEXT.tuningIn;
  return details?.max ? TEXT.slotsInUse : TEXT.busy;
}

/** Shorter waits are not reported, seconds. */
const REPORT_AFTER_SECONDS = 3;

/** Awaits `work` and returns its result; calls `onDelay(seconds)` every second once it takes long. */
export async function reportDelay(onDelay, work) {
  const began = performance.now();
  const timer = setInterval(() => {
    const seconds = Math.round((performance.now() - began) / 1000);
    if (seconds >= REPORT_AFTER_SECONDS) onDelay(seconds);
  }, 1000);
  try {
    return await work;
  } finally {
    clearInterval(timer);
  }
}

/** The English name of a language, or the tag itself if it has none. */
export function languageName(tag) {
  if (!tag || tag === "und") return null;
  try {
    return new Intl.DisplayNames(["en"], { type: "language" }).of(tag) ?? tag;
  } catch {
    return tag;
  }
}

/** 75 -> "1:15", 3675 -> "1:01:15". */
export function formatClock(seconds) {
  const totalSeconds = Math.max(0, Math.round(seconds));
  const padded = (n) => String(n).padStart(2, "0");
  const [hours, minutes] = [Math.floor(totalSeconds / 3600), Math.floor((totalSeconds % 3600) / 60)];
  return hours ? `${hours}:${padded(minutes)}:${padded(totalSeconds % 60)}` : `${minutes}:${padded(totalSeconds % 60)}`;
}

/** 5400 -> "1 h 30 min", at least 1 min. */
export function formatLength(seconds) {
  const minutes = Math.max(1, Math.round(seconds / 60));
  const [hours, rest] = [Math.floor(minutes / 60), minutes % 60];
  return [hours && `${hours} h`, (rest || !hours) && `${rest} min`].filter(Boolean).join(" ");
}

/** A formatter of instants, created on first use and kept: creating it is most of the work of a guide. */
function dateFormatter(options) {
  let format = null;
  return (instant) => (format ??= new Intl.DateTimeFormat([], options)).format(new Date(instant));
}

/** The time of day of an instant in the browser's locale. */
export const formatTime = dateFormatter({ hour: "numeric", minute: "2-digit" });

/** The weekday and date of an instant. */
export const formatDay = dateFormatter({ weekday: "short", day: "numeric", month: "short" });

/** The day and time of an instant; empty for null. */
export const formatMoment = (instant) => (instant ? `${formatDay(instant)}, ${formatTime(instant)}` : "");

/** 1536000 -> "1.5 MB". */
export function formatSize(bytes) {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let unit = 0;
  for (; bytes >= 1000 && unit < units.length - 1; unit += 1) bytes /= 1000;
  return `${bytes < 10 && unit > 0 ? bytes.toFixed(1) : Math.round(bytes)} ${units[unit]}`;
}
