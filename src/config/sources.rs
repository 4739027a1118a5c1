//! The sources of settings and their precedence.
//!
//! The file is a TOML table. Variables are merged into it, and the result is parsed once, strictly: an unknown key is an
//! error. Flags come last. `HEARTHCAST_LIMITS_BODY_BYTES=131072` sets `body_bytes` in `[limits]`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Deserializer};
use toml::{Table, Value};

use super::{BackendSetting, Config, DatabaseAddress, IsolationSetting};
use crate::domain::library::{Root, unused_root_id};

/// Variables with the settings' prefix that are not settings; those after `HEARTHCAST_LOG` are for tests and benchmarks.
const NON_SETTINGS: [&str; 5] =
    ["HEARTHCAST_CONFIG", "HEARTHCAST_LOG", "HEARTHCAST_CORPUS", "HEARTHCAST_ROUNDS", "HEARTHCAST_FAULTS"];

/// Smallest similarity, 0 to 1, of a name that is suggested for an unknown one.
const MIN_SIMILARITY: f64 = 0.75;

/// Settings given on the command line.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    pub config: Option<PathBuf>,
    pub listen: Option<SocketAddr>,
    pub state: Option<PathBuf>,
    pub roots: Vec<PathBuf>,
    pub backend: Option<BackendSetting>,
    pub isolation: Option<IsolationSetting>,
    pub queue: Option<String>,
    pub segments: Option<String>,
}

/// Looks up an environment variable; in tests, in a table.
pub type EnvironmentLookup<'a> = &'a dyn Fn(&str) -> Option<String>;

#[derive(Deserialize)]
#[serde(untagged)]
enum RootSetting {
    Path(PathBuf),
    Named { id: String, path: PathBuf },
}

/// Settings that a variable can set, by how its text is parsed.
const SETTING_VARIABLES: [(VariableKind, &str); 5] = [
    (
        VariableKind::Text,
        "listen state cache recordings backend isolation hevc_encoder av1_encoder public_base_url ffmpeg subtitle_font \
         hdhomerun_token_file peer_address state_ca_file queue segments segments_endpoint segments_region segments_credentials_file \
         otlp_endpoint",
    ),
    (VariableKind::Number, "segment_seconds subtitle_size_percent"),
    (VariableKind::Boolean, "shared_cache hdhomerun find_marks"),
    (VariableKind::List(':'), "roots"),
    (VariableKind::List(','), "allowed_origins trusted_proxies allowed_sources forbidden_encoders"),
];

#[derive(Clone, Copy)]
enum VariableKind {
    Text,
    Number,
    Boolean,
    List(char),
}

/// Reads all sources and validates the result.
///
/// # Errors
/// All errors, one per line, as messages for the operator.
pub fn load(flags: &Flags, names: &[String], environment: EnvironmentLookup) -> Result<Config, String> {
    let file = flags.config.clone().or_else(|| environment("HEARTHCAST_CONFIG").map(PathBuf::from));
    let mut table = file.as_deref().map_or_else(|| Ok(Table::new()), read_file)?;
    apply_environment(&mut table, names, environment)?;
    let config: Config = Value::Table(table).try_into().map_err(|fault| fault.to_string())?;
    let config = resolve(config, flags, environment)?;
    match config.errors() {
        faults if faults.is_empty() => Ok(config),
        faults => Err(faults.join("\n")),
    }
}

/// Runs [`load`] with the environment of this process.
///
/// # Errors
/// As [`load`].
pub fn load_from_process(flags: &Flags) -> Result<Config, String> {
    let names: Vec<String> = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()).collect();
    // Only a warning: an older version must start with the variables of a newer one.
    for unknown in unknown_variables(&names) {
        tracing::warn!("{unknown}");
    }
    load(flags, &names, &|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
}

/// Reads a file. It is checked on its own first, so that an error names its line.
#[allow(clippy::disallowed_methods, reason = "a settings file the operator named")]
fn read_file(path: &Path) -> Result<Table, String> {
    let text = std::fs::read_to_string(path).map_err(|cause| format!("{}: {cause}", path.display()))?;
    let with_path = |fault: toml::de::Error| format!("{}: {fault}", path.display());
    toml::from_str::<Config>(&text).map_err(with_path)?;
    toml::from_str(&text).map_err(with_path)
}

fn apply_environment(table: &mut Table, names: &[String], environment: EnvironmentLookup) -> Result<(), String> {
    for name in names.iter().filter(|name| !NON_SETTINGS.contains(&name.as_str())) {
        let Some(setting) = name.strip_prefix("HEARTHCAST_") else { continue };
        let Some(text) = environment(name) else { continue };
        let setting = setting.to_ascii_lowercase();
        if let Some(limit) = setting.strip_prefix("limits_") {
            let limits = table.entry("limits").or_insert_with(|| Value::Table(Table::new()));
            let limits = limits.as_table_mut().ok_or("limits must be a table")?;
            limits.insert(limit.to_owned(), parse_number(name, &text)?);
        } else if let Some((kind, _)) = setting_variables().find(|(_, variable)| *variable == setting) {
            let value = match kind {
                VariableKind::Text => Value::String(text),
                VariableKind::Number => parse_number(name, &text)?,
                VariableKind::Boolean => {
                    let parsed = text.parse().map_err(|_| format!("{name} is {text:?}; it must be true or false"));
                    Value::Boolean(parsed?)
                }
                VariableKind::List(separator) => {
                    let items = text.split(separator).filter(|item| !item.is_empty());
                    Value::Array(items.map(|item| Value::String(item.trim().to_owned())).collect())
                }
            };
            table.insert(setting, value);
        }
    }
    Ok(())
}

fn setting_variables() -> impl Iterator<Item = (VariableKind, &'static str)> {
    SETTING_VARIABLES.into_iter().flat_map(|(kind, names)| names.split(' ').map(move |name| (kind, name)))
}

/// A warning for every variable that looks like a setting but is not one.
fn unknown_variables(names: &[String]) -> Vec<String> {
    let known: Vec<_> = setting_variables().map(|(_, key)| format!("HEARTHCAST_{}", key.to_uppercase())).collect();
    let known: Vec<&str> = known.iter().map(String::as_str).chain(NON_SETTINGS).collect();
    let is_known = |name: &str| name.starts_with("HEARTHCAST_LIMITS_") || known.contains(&name);
    // Names of settings are not case-sensitive.
    let unknown = names.iter().filter(|name| name.starts_with("HEARTHCAST_") && !is_known(&name.to_uppercase()));
    let warning = |name: &String| {
        let scores = known.iter().map(|known| (strsim::jaro_winkler(known, name), known));
        let closest = scores.max_by(|(a, _), (b, _)| a.total_cmp(b)).filter(|(score, _)| *score >= MIN_SIMILARITY);
        let hint = closest.map_or(String::new(), |(_, closest)| format!("; did you mean {closest}?"));
        format!("the variable {name} is not a setting and has no effect{hint}")
    };
    unknown.map(warning).collect()
}

fn parse_number(name: &str, text: &str) -> Result<Value, String> {
    let number = text.parse().map(Value::Integer).or_else(|_| text.parse().map(Value::Float));
    number.map_err(|_| format!("{name} is {text:?}; it must be a number"))
}

/// Applies the flags, finds the folders that are not set, and makes all paths absolute.
fn resolve(mut config: Config, flags: &Flags, environment: EnvironmentLookup) -> Result<Config, String> {
    let home = || environment("HOME").map(PathBuf::from);
    let systemd_folder = |name: &str| environment(name).and_then(|paths| Some(PathBuf::from(paths.split(':').next()?)));
    let xdg_folder = |name: &str, below: &str| {
        environment(name).map(PathBuf::from).or_else(|| Some(home()?.join(below))).map(|base| base.join("hearthcast"))
    };
    let configured = |path: PathBuf| Some(path).filter(|path| !path.as_os_str().is_empty());

    let configured_state = flags.state.clone().or(configured(config.state));
    config.database = configured_state.as_deref().and_then(DatabaseAddress::from_setting);
    // The folder of a database's copy is the one without a setting.
    let configured_state = configured_state.filter(|_| config.database.is_none());
    let has_own_state = configured_state.is_some();
    let state = configured_state.or_else(|| systemd_folder("STATE_DIRECTORY"));
    let state = state.or_else(|| xdg_folder("XDG_STATE_HOME", ".local/state"));
    config.state = absolute(&state.ok_or("no state folder is configured: set --state")?)?;
    // A server with its own state folder must not share its segments with another server.
    let own_cache = has_own_state.then(|| config.state.join("cache"));
    let cache = configured(config.cache).or_else(|| systemd_folder("CACHE_DIRECTORY")).or(own_cache);
    let cache = cache.or_else(|| xdg_folder("XDG_CACHE_HOME", ".cache"));
    config.cache = absolute(&cache.ok_or("no folder for segments is configured: set cache in the configuration")?)?;
    if !flags.roots.is_empty() {
        config.roots = to_roots(flags.roots.iter().cloned().map(RootSetting::Path))?;
    }
    config.listen = flags.listen.unwrap_or(config.listen);
    config.backend = flags.backend.unwrap_or(config.backend);
    config.isolation = flags.isolation.unwrap_or(config.isolation);
    config.queue = flags.queue.clone().or(config.queue);
    config.segments = flags.segments.clone().or(config.segments);
    config.recordings = config.recordings.as_deref().map(absolute).transpose()?;
    if let Some(folder) = systemd_folder("CREDENTIALS_DIRECTORY") {
        if let Some(admin) = &mut config.admin {
            admin.password_hash_file = folder.join(&admin.password_hash_file);
        }
        config.hdhomerun_token_file = config.hdhomerun_token_file.map(|file| folder.join(file));
        config.segments_credentials_file = config.segments_credentials_file.map(|file| folder.join(file));
        config.state_ca_file = config.state_ca_file.map(|file| folder.join(file));
    }
    Ok(config)
}

fn absolute(path: &Path) -> Result<PathBuf, String> {
    std::path::absolute(path).map_err(|cause| format!("{}: {cause}", path.display()))
}

fn to_roots(settings: impl IntoIterator<Item = RootSetting>) -> Result<Vec<Root>, String> {
    let mut roots: Vec<Root> = Vec::new();
    for setting in settings {
        let (id, path) = match setting {
            RootSetting::Named { id, path } => (id, absolute(&path)?),
            RootSetting::Path(path) => {
                let path = absolute(&path)?;
                (unused_root_id(&roots, &path), path)
            }
        };
        roots.push(Root { id, path });
    }
    Ok(roots)
}

/// Deserializes library folders.
pub(super) fn roots<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Root>, D::Error> {
    to_roots(Vec::<RootSetting>::deserialize(from)?).map_err(serde::de::Error::custom)
}

/// Deserializes a duration from a number of seconds.
pub(super) fn seconds<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    Duration::try_from_secs_f64(f64::deserialize(from)?).map_err(serde::de::Error::custom)
}

/// Deserializes a duration from a number of days.
pub(super) fn days<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    Duration::try_from_secs_f64(f64::deserialize(from)? * 86_400.0).map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests;
