// Every sentence of the page, and the plain words for what the server names by code.

export const TEXT = {
  home: "Home",
  library: "Library",
  guide: "Guide",
  settings: "Settings",
  loading: "Loading…",
  more: "Show more",
  again: "Try again",
  empty: "There is nothing to play in this folder.",
  noRoots: "The library has no folders yet. Start the server with --root, or name them in its configuration.",
  signOut: "Sign out",
  expired: "Your sign-in has ended. Sign in again to go on.",
  offline: "The server does not answer. Is it still running?",
  preparing: "Preparing…",
  preparingSince: (seconds) => `Preparing, for ${seconds} s so far…`,
  busy: "The server is busy; waiting for it…",
  busyWith: (active, most) => `The server converts ${active} of ${most} at once already; this begins as soon as one of them ends…`,
  channelComes: "The channel is not ready yet; asking again…",
  direct: "Playing the file as it is.",
  off: "Off",
  original: "Original",
  automatic: "Automatic",
  // Home
  goOn: "Continue watching",
  nextUp: "Next up",
  onNow: "On now",
  books: "Audiobooks",
  watched: "Watched before",
  fresh: "Nothing has been watched yet. The library is the place to begin.",
  toLibrary: "Open the library",
  gone: "no longer there",
  left: (time) => `${time} left`,
  until: (time) => `until ${time}`,
  then: (title) => `then ${title}`,
  // Library and file page
  up: "Up one folder",
  search: "Search",
  searchHere: "Search in this folder and below",
  searching: (folders) => `Searching… ${folders} folders so far`,
  found: (count) => `${count} found`,
  foundNone: "Nothing has this in its name.",
  play: "Play",
  resume: (time) => `Resume at ${time}`,
  fromStart: "From the beginning",
  listen: "Listen",
  listenFolder: "Listen to this folder as one book",
  details: "Details",
  markWatched: "Mark as watched",
  forget: "Forget where I am",
  file: "File",
  tracks: "Tracks",
  // Playing
  backToFolder: "Back to the folder",
  back: "Back",
  position: "Position",
  pause: "Pause",
  rewind: "10 seconds back",
  forward: "30 seconds on",
  previousChapter: "Chapter before",
  nextChapter: "Next chapter",
  sound: "Sound",
  subtitles: "Subtitles",
  size: "Size",
  speed: "Speed",
  chapters: "Chapters",
  chapter: (n) => `Chapter ${n}`,
  stats: "What plays",
  full: "Full screen",
  skip: (title) => `Skip ${title}`,
  next: (title) => `Next: ${title}`,
  following: "Next",
  wasAt: "You were also at",
  playNow: "Play now",
  stay: "Not now",
  inSeconds: (n) => `in ${n} s`,
  sleep: "Sleep timer",
  minutes: (n) => `${n} minutes`,
  chapterEnd: "End of chapter",
  whereIWas: "Where I was",
  undo: (time) => `Back to ${time}`,
  // Guide and channels
  noChannels: "There are no channels yet.",
  makeChannel: "Make a channel",
  now: "Now",
  dayBefore: "Day before",
  dayAfter: "Day after",
  nothingOn: "No programme",
  watch: "Watch",
  startOver: "Start over",
  live: "Live",
  channelUp: "Channel up",
  channelDown: "Channel down",
  lastChannel: "Last channel",
  skipProgramme: "Skip",
  skippedTo: (title) => `${title} comes in a few seconds.`,
  starting: (name) => `Starting ${name}…`,
  startingSince: (name, seconds) => `Starting ${name}, for ${seconds} s so far…`,
  noSuchChannel: (number) => `There is no channel ${number}.`,
  // Set-up
  step: (n, of) => `Step ${n} of ${of}`,
  chooseFolder: "Choose what your first channel shows",
  chooseFolderWhy: "A channel plays a folder of your library, day and night. More can be made later.",
  channelName: "Name",
  skipThis: "Skip this",
  channelMade: (name) => `${name} is on air.`,
  // Settings
  playing: "Playing now",
  server: "Server",
  pipelines: "Pipelines",
  log: "Log",
  channels: "Channels",
  users: "Users",
  devices: "Devices",
  tokens: "Players and TVs",
  account: "Password",
  remove: "Remove",
  sure: "Really remove?",
  save: "Save",
  saved: "Saved.",
  add: "Add",
  preview: "Preview 24 hours",
  name: "Name",
  since: "Since",
  password: "Password",
  passwordNow: "Password now",
  passwordNew: "New password",
  keepPlayers: "Keep players and TVs watching",
  playersOf: (name) => `Players and TVs of ${name}`,
  may: "May",
  mayAll: "everything",
  mayWatch: "watch",
  device: "Device",
  address: "Address",
  lastSeen: "Last seen",
  thisOne: (name) => `${name} (this one)`,
  // Who plays what
  sessions: "Files",
  who: "Who",
  what: "What",
  how: "How",
  channel: "Channel",
  watchedBy: "Watched by",
  stop: "Stop",
  sureStop: "Really stop?",
  copied: "kept as it is",
  nobodyPlays: "No file is being converted for anybody.",
  noneOnAir: "Nobody watches a channel.",
  converting: (now, most) => `Converting now: ${now} of ${most} at once`,
  // The server
  answers: "Answers",
  converter: "State",
  works: "Works",
  load: "Load",
  waitingRequests: "Requests that wait",
  program: "Converter",
  reader: "Reads files with",
  madeBy: "Segments are made by",
  encoders: "Encoders",
  none: "none",
  rejected: "Cannot be used",
  lastFailure: "Last failure",
  noPipelines: "No pipeline is at work. They come with a film or a channel that this process converts itself.",
  asText: "As text",
  logEmpty: "Nothing has been said yet.",
  showFrom: "Show",
  levels: { INFO: "everything", WARN: "warnings and errors", ERROR: "errors only" },
  // Players that cannot sign in
  playersWhy: "Players such as Kodi or VLC, and television sets, watch the channels with a link of their own.",
  noPlayers: "No player has a link yet.",
  lastUsed: "Last used",
  deviceName: "Name of the device",
  giveThese: (name) => `Give these to ${name}. They are shown only now, and let it watch live television, nothing else.`,
  m3u: "Playlist (M3U)",
  xmltv: "Guide (XMLTV)",
  qr: (label) => `${label} as a QR code`,
  copy: "Copy",
  copiedNow: "Copied",
  // What comes from elsewhere
  sources: "Sources",
  sourcesWhy: "Channels from elsewhere are shown only when it is written down where they come from and by what right, and when somebody vouches for that. Whoever withdraws it stops them at once.",
  addStream: "Add a channel from elsewhere",
  stream: "Stream",
  streamUrl: "Address of the stream",
  origin: "Comes from",
  lookUp: "look it up",
  right: "By what right",
  vouches: "Who vouches",
  vouched: (by, at) => `${by}, ${at}`,
  withdrawn: (by, at) => `withdrawn by ${by}, ${at}`,
  withdraw: "Withdraw",
  sureWithdraw: "Really withdraw?",
  vouchAgain: "Vouch for it",
  sureVouch: "I am authorised to show it",
  sourceName: "Who offers it",
  sourceUrl: "Where its origin and terms can be looked up",
  basis: "Basis",
  bases: {
    "own-content": "own content", "public-domain": "public domain", licensed: "licensed",
    "provider-subscription": "subscription with a provider", other: "other",
  },
  statement: "The right in words (20 characters or more)",
  recordingBasis: "Why it may be recorded (empty: it may not)",
  attest: "I am authorised to show this, and what is written here is true.",
  audit: "What was said, and by whom",
  auditEmpty: "Nobody has vouched for anything yet.",
  when: "When",
  about: "About",
  acts: { attested: "vouched for", changed: "changed", withdrawn: "withdrew", removed: "removed" },
  // Lists and guides elsewhere
  addImport: "Bring in a list of channels or a guide",
  kinds: { m3u: "Channels (M3U)", xmltv: "Guide (XMLTV)" },
  uploaded: "a file",
  importStates: { ready: "read", refreshing: "being read", failed: "failed", withdrawn: "withdrawn" },
  counts: ({ entries, channels, programmes, skipped }) =>
    `${entries} entries, ${channels} channels, ${programmes} programmes, ${skipped} left out`,
  holds: "Holds",
  readAt: "Read",
  refresh: "Read again",
  importKind: "What it is",
  importName: "What to call it",
  importUrl: "Address of the list",
  orFile: "or a file",
  onlyGroups: "Only these groups (with commas between)",
  allOfThem: "all of them",
  numberFrom: "Numbers from",
  ownNumbers: "the list’s own",
  refreshHours: "Read again every so many hours",
  never: "never",
  bringIn: "Bring in",
  look: "Look first",
  groups: "Groups",
  line: "Line",
  leftOut: "Left out",
  why: "Why",
  // Recordings
  recordings: "Recordings",
  recordingsWhy: "What the guide offers can be recorded: choose a programme there, or press record while you watch.",
  noRecordings: "Nothing is recorded, and nothing is to be.",
  recordingStates: { scheduled: "to come", recording: "being recorded", complete: "done", failed: "failed", cancelled: "called off" },
  conflicts: (count) => `${count} in its way`,
  missing: (time) => `${time} missing`,
  series: "Recorded whenever they are on",
  newOnly: "new ones only",
  cancel: "Call off",
  sureCancel: "Really call off?",
  forgetIt: "Forget",
  deleteFile: "Delete the file",
  record: "Record",
  recorded: "Is recorded",
  // The channel editor
  modes: { shuffle: "Shuffled", sequential: "In order", shuffleInOrder: "Shuffled, series in order", random: "At random", weighted: "By weight" },
  isOff: (name) => `${name} (off)`,
  change: "Change",
  number: "Number",
  nextFree: "next free",
  category: "Category",
  order: "Order",
  onTheAir: "On the air",
  alwaysOn: "Ready at all times",
  onDemand: "Only while somebody watches",
  byTheClock: "What it shows follows a day by the clock, which is set through the interface (scheduleMode \"blocks\") and stays as it is.",
  whatItShows: "What it shows",
  open: "Open",
  openNamed: (name) => `Open ${name}`,
};

const STATES = {
  starting: "starting", running: "playing", paused: "far enough ahead", complete: "all made", failed: "failed", stopped: "stopped",
  live: "live", warm: "kept ready", idle: "idle", playing: "works", ready: "ready", null: "ends",
};

/** How something stands, in a word. */
export const stateOf = (state) => STATES[state] ?? state;

const ERRORS = {
  UNAUTHORIZED: TEXT.expired,
  TOKEN_EXPIRED: TEXT.expired,
  INVALID_CREDENTIALS: "That name and password do not match.",
  RATE_LIMITED: "Too many tries. Wait a minute, then try again.",
  FORBIDDEN: "This is outside the library.",
  NOT_FOUND: "This file is no longer there.",
  UNSUPPORTED_MEDIA_TYPE: "This is not a media file.",
  UNPLAYABLE_MEDIA: "Nothing in this file can be played.",
  TOO_MANY_SESSIONS: "You are playing on too many screens. Stop one of them first.",
  TRANSCODER_BUSY: "The server is converting as much as it can. Try again in a moment.",
  PROBE_TIMED_OUT: "The disk is still waking up. Try again in a moment.",
  TRANSCODER_UNAVAILABLE: "This file must be converted, but the server has no converter (ffmpeg is missing).",
  STORAGE_TIMEOUT: "The disk with this file does not answer.",
  SEGMENT_TIMEOUT: "The server is too slow for this file at this size. Choose a smaller size.",
  DECODE_FAILED: "The file is damaged here: it cannot be decoded.",
  ENCODER_FAILED: "The server’s converter failed.",
  SOURCE_READ_FAILED: "The file can no longer be read.",
  SOURCE_CHANGED: "The file was changed while it played.",
  SESSION_ENDED: "Playback had paused too long and was ended.",
  SESSION_NOT_FOUND: "Playback had paused too long and was ended.",
  CHANNEL_NOT_FOUND: "There is no such channel.",
  RIGHTS_BASIS_REQUIRED: "It is not written down by what right this is shown, or recorded.",
  RIGHTS_WITHDRAWN: "Whoever vouched for this has withdrawn it.",
  CHANNEL_UNAVAILABLE: "The channel cannot start at the moment.",
  STORAGE_FULL: "The server’s disk is full: nothing can be saved.",
  INTERNAL: "Something went wrong in the server. Its log says what.",
};

/** What to tell a person about a failure. */
export function explain(error) {
  return ERRORS[error.code] ?? error.message ?? String(error);
}

/** What one waits for, while the server has no place. */
export function waiting({ code, details }) {
  if (code === "CHANNEL_UNAVAILABLE") return TEXT.channelComes;
  return details?.max ? TEXT.busyWith(details.active ?? details.max, details.max) : TEXT.busy;
}

/** From when on it is said how long something takes, seconds. */
const LONG = 3;

/** Tells `so(seconds)` every second how long something takes, from when it is long; gives what it gives. */
export async function since(so, work) {
  const began = performance.now();
  const timer = setInterval(() => {
    const seconds = Math.round((performance.now() - began) / 1000);
    if (seconds >= LONG) so(seconds);
  }, 1000);
  try {
    return await work;
  } finally {
    clearInterval(timer);
  }
}

const SUBJECTS = {
  CONTAINER: "its container",
  VIDEO_CODEC: "its video format",
  VIDEO_PROFILE: "its video profile",
  VIDEO_LEVEL: "its video level",
  VIDEO_BIT_DEPTH: "its colour depth",
  VIDEO_RANGE: "HDR pictures",
  VIDEO_RESOLUTION: "its picture size",
  VIDEO_FRAMERATE: "its frame rate",
  AUDIO_CODEC: "its sound format",
  AUDIO_CHANNELS: "so many sound channels",
  SUBTITLE_CODEC: "its subtitles",
};

const REASONS = {
  INTERLACED: "its picture is interlaced",
  ANAMORPHIC: "its pixels are not square",
  BITRATE_EXCEEDS_LIMIT: "it needs more bandwidth than was asked for",
  SECONDARY_AUDIO_SELECTED: "another sound track was chosen",
  START_FORCED: "conversion was asked for",
};

/** What the server does for this playback, and why, as one sentence. */
export function describe(decision) {
  if (!decision) return "";
  const parts = { copy: "kept", encode: "converted" };
  const work = [
    decision.video && parts[decision.video] && `picture ${parts[decision.video]}`,
    decision.audio && parts[decision.audio] && `sound ${parts[decision.audio]}`,
    decision.subtitle === "burn" && "subtitles drawn into the picture",
  ].filter(Boolean);
  const why = reasons(decision.reasons ?? []);
  const head = work.length ? `Streaming: ${work.join(", ")}` : "Streaming";
  return why.length ? `${head}, because ${list(why)}.` : `${head}.`;
}

/** The reasons of a play decision in plain words: what this browser does not play is named together. */
export function reasons(codes = []) {
  const names = codes.map((code) => code.replace(/_NOT_SUPPORTED$/, ""));
  const subjects = [...new Set(names.map((name) => SUBJECTS[name]).filter(Boolean))];
  const others = names.filter((name) => !SUBJECTS[name]).map((name) => REASONS[name] ?? name.toLowerCase().replaceAll("_", " "));
  return [...new Set([...(subjects.length ? [`this browser does not play ${list(subjects)}`] : []), ...others])];
}

function list(parts) {
  return parts.length < 2 ? parts.join("") : `${parts.slice(0, -1).join(", ")} and ${parts.at(-1)}`;
}

/** Language by its name in English; the tag itself where it has none. */
export function language(tag) {
  if (!tag || tag === "und") return null;
  try {
    return new Intl.DisplayNames(["en"], { type: "language" }).of(tag) ?? tag;
  } catch {
    return tag;
  }
}

/** 75 -> "1:15", 3675 -> "1:01:15". */
export function clock(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  const two = (n) => String(n).padStart(2, "0");
  const [hours, minutes] = [Math.floor(whole / 3600), Math.floor((whole % 3600) / 60)];
  return hours ? `${hours}:${two(minutes)}:${two(whole % 60)}` : `${minutes}:${two(whole % 60)}`;
}

/** What is left of something, in words: 5400 -> "1 h 30 min". */
export function lasting(seconds) {
  const minutes = Math.max(1, Math.round(seconds / 60));
  const [hours, rest] = [Math.floor(minutes / 60), minutes % 60];
  return [hours && `${hours} h`, (rest || !hours) && `${rest} min`].filter(Boolean).join(" ");
}

/** What writes instants: made when first needed, and once, for making it is most of the work of a guide. */
function writer(options) {
  let made = null;
  return (instant) => (made ??= new Intl.DateTimeFormat([], options)).format(new Date(instant));
}

/** The time of day of an instant, as people here write it. */
export const time = writer({ hour: "numeric", minute: "2-digit" });

/** The day of an instant. */
export const day = writer({ weekday: "short", day: "numeric", month: "short" });

/** Day and time of an instant; nothing when there is none. */
export const moment = (instant) => (instant ? `${day(instant)}, ${time(instant)}` : "");

/** 1536000 -> "1.5 MB". */
export function size(bytes) {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let unit = 0;
  for (; bytes >= 1000 && unit < units.length - 1; unit += 1) bytes /= 1000;
  return `${bytes < 10 && unit > 0 ? bytes.toFixed(1) : Math.round(bytes)} ${units[unit]}`;
}
