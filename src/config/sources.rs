//! The sources of settings and their precedence.
//!
//! The file is a TOML table. Variables are merged into it, and the result is parsed once, strictly: an unknown key is an
//! error. Flags come last. `HEARTHCAST_LIMITS_BODY_BYTES=131072` sets `body_bytes` in `[limits]`.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Deserializer};
use toml::{Table, Value};

use super::{BackendSetting, Config, DeclaredAdmin, Limits};
use crate::domain::library::Root;

/// Variables with the settings' prefix that are not settings; those after `HEARTHCAST_LOG` are for tests and benchmarks.
const NO_SETTINGS: [&str; 5] =
    ["HEARTHCAST_CONFIG", "HEARTHCAST_LOG", "HEARTHCAST_CORPUS", "HEARTHCAST_ROUNDS", "HEARTHCAST_FAULTS"];

/// Smallest similarity, 0 to 1, of a name that is suggested for an unknown one.
const SIMILAR: f64 = 0.75;

/// Settings given on the command line.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    pub config: Option<PathBuf>,
    pub listen: Option<SocketAddr>,
    pub state: Option<PathBuf>,
    pub roots: Vec<PathBuf>,
    pub backend: Option<BackendSetting>,
}

/// Looks up an environment variable; in tests, in a table.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    listen: Option<SocketAddr>,
    state: Option<PathBuf>,
    cache: Option<PathBuf>,
    #[serde(default)]
    roots: Vec<RootSetting>,
    recordings: Option<PathBuf>,
    #[serde(default)]
    backend: BackendSetting,
    #[serde(default)]
    limits: Limits,
    segment_seconds: Option<f64>,
    subtitle_font: Option<String>,
    subtitle_size_percent: Option<f64>,
    #[serde(default)]
    allowed_origins: Vec<String>,
    #[serde(default)]
    trusted_proxies: Vec<IpAddr>,
    public_base_url: Option<String>,
    #[serde(default)]
    allowed_sources: Vec<String>,
    ffmpeg: Option<PathBuf>,
    admin: Option<DeclaredAdmin>,
    #[serde(default)]
    hdhomerun: bool,
    hdhomerun_token_file: Option<PathBuf>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum RootSetting {
    Path(PathBuf),
    Named { id: String, path: PathBuf },
}

/// Settings that a variable can set, and how its text is parsed.
const VARIABLES: [(&str, Kind); 16] = [
    ("listen", Kind::Text),
    ("state", Kind::Text),
    ("cache", Kind::Text),
    ("recordings", Kind::Text),
    ("backend", Kind::Text),
    ("public_base_url", Kind::Text),
    ("ffmpeg", Kind::Text),
    ("segment_seconds", Kind::Number),
    ("subtitle_font", Kind::Text),
    ("subtitle_size_percent", Kind::Number),
    ("hdhomerun", Kind::Switch),
    ("hdhomerun_token_file", Kind::Text),
    ("roots", Kind::List(':')),
    ("allowed_origins", Kind::List(',')),
    ("trusted_proxies", Kind::List(',')),
    ("allowed_sources", Kind::List(',')),
];

#[derive(Clone, Copy)]
enum Kind {
    Text,
    Number,
    Switch,
    List(char),
}

/// Reads all sources and validates the result.
///
/// # Errors
/// All errors, one per line, as messages for the operator.
pub fn load(flags: &Flags, names: &[String], environment: Environment) -> Result<Config, String> {
    let file = flags.config.clone().or_else(|| environment("HEARTHCAST_CONFIG").map(PathBuf::from));
    let mut table = file.as_deref().map_or_else(|| Ok(Table::new()), read)?;
    overlay(&mut table, names, environment)?;
    let settings: Settings = Value::Table(table).try_into().map_err(|fault| fault.to_string())?;
    let config = resolve(settings, flags, environment)?;
    match config.faults() {
        faults if faults.is_empty() => Ok(config),
        faults => Err(faults.join("\n")),
    }
}

/// Runs [`load`] with the environment of this process.
///
/// # Errors
/// As [`load`].
pub fn load_here(flags: &Flags) -> Result<Config, String> {
    let names: Vec<String> = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()).collect();
    // Only a warning: an older version must start with the variables of a newer one.
    for unknown in unknown_variables(&names) {
        tracing::warn!("{unknown}");
    }
    load(flags, &names, &|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
}

/// Reads a file. It is checked on its own first, so that an error names its line.
#[allow(clippy::disallowed_methods, reason = "a settings file the operator named")]
fn read(path: &Path) -> Result<Table, String> {
    let text = std::fs::read_to_string(path).map_err(|cause| format!("{}: {cause}", path.display()))?;
    let named = |fault: toml::de::Error| format!("{}: {fault}", path.display());
    toml::from_str::<Settings>(&text).map_err(named)?;
    toml::from_str(&text).map_err(named)
}

fn overlay(table: &mut Table, names: &[String], environment: Environment) -> Result<(), String> {
    for name in names.iter().filter(|name| !NO_SETTINGS.contains(&name.as_str())) {
        let Some(setting) = name.strip_prefix("HEARTHCAST_") else { continue };
        let Some(text) = environment(name) else { continue };
        let setting = setting.to_ascii_lowercase();
        if let Some(limit) = setting.strip_prefix("limits_") {
            let limits = table.entry("limits").or_insert_with(|| Value::Table(Table::new()));
            let limits = limits.as_table_mut().ok_or("limits must be a table")?;
            limits.insert(limit.to_owned(), number(name, &text)?);
        } else if let Some((_, kind)) = VARIABLES.iter().find(|(known, _)| *known == setting) {
            let value = match kind {
                Kind::Text => Value::String(text),
                Kind::Number => number(name, &text)?,
                Kind::Switch => {
                    let on = text.parse().map_err(|_| format!("{name} is {text:?}; it must be true or false"));
                    Value::Boolean(on?)
                }
                Kind::List(between) => {
                    let items = text.split(*between).filter(|item| !item.is_empty());
                    Value::Array(items.map(|item| Value::String(item.trim().to_owned())).collect())
                }
            };
            table.insert(setting, value);
        }
    }
    Ok(())
}

/// A warning for every variable that looks like a setting but is not one.
fn unknown_variables(names: &[String]) -> Vec<String> {
    let known: Vec<String> = VARIABLES.iter().map(|(name, _)| format!("HEARTHCAST_{}", name.to_uppercase())).collect();
    let known: Vec<&str> = known.iter().map(String::as_str).chain(NO_SETTINGS).collect();
    let is_known = |name: &str| name.starts_with("HEARTHCAST_LIMITS_") || known.contains(&name);
    // Names of settings are not case-sensitive.
    let unknown = names.iter().filter(|name| name.starts_with("HEARTHCAST_") && !is_known(&name.to_uppercase()));
    let sentence = |name: &String| {
        let similar = known.iter().map(|known| (strsim::jaro_winkler(known, name), known));
        let closest = similar.max_by(|(a, _), (b, _)| a.total_cmp(b)).filter(|(similarity, _)| *similarity >= SIMILAR);
        let hint = closest.map_or(String::new(), |(_, closest)| format!("; did you mean {closest}?"));
        format!("the variable {name} is not a setting and has no effect{hint}")
    };
    unknown.map(sentence).collect()
}

fn number(name: &str, text: &str) -> Result<Value, String> {
    let number = text.parse().map(Value::Integer).or_else(|_| text.parse().map(Value::Float));
    number.map_err(|_| format!("{name} is {text:?}; it must be a number"))
}

fn resolve(settings: Settings, flags: &Flags, environment: Environment) -> Result<Config, String> {
    let absolute = |path: &Path| std::path::absolute(path).map_err(|cause| format!("{}: {cause}", path.display()));
    let home = || environment("HOME").map(PathBuf::from);
    let systemd = |name: &str| environment(name).and_then(|paths| Some(PathBuf::from(paths.split(':').next()?)));
    let xdg = |name: &str, below: &str| {
        environment(name)
            .map(PathBuf::from)
            .or_else(|| Some(home()?.join(below)))
            .map(|folder| folder.join("hearthcast"))
    };

    let said = flags.state.clone().or(settings.state);
    let own_state = said.is_some();
    let state = said.or_else(|| systemd("STATE_DIRECTORY")).or_else(|| xdg("XDG_STATE_HOME", ".local/state"));
    let state = absolute(&state.ok_or("no state folder is configured: set --state")?)?;
    // A server with its own state folder must not share its segments with another server.
    let cache = settings.cache.or_else(|| systemd("CACHE_DIRECTORY"));
    let cache = cache.or_else(|| if own_state { Some(state.join("cache")) } else { xdg("XDG_CACHE_HOME", ".cache") });
    let cache = absolute(&cache.ok_or("no folder for segments is configured: set cache in the configuration")?)?;

    let mut roots: Vec<Root> = Vec::new();
    let said = flags.roots.iter().map(|path| RootSetting::Path(path.clone()));
    let said: Vec<RootSetting> = if flags.roots.is_empty() { settings.roots } else { said.collect() };
    for setting in said {
        let (id, path) = match setting {
            RootSetting::Named { id, path } => (id, absolute(&path)?),
            RootSetting::Path(path) => {
                let path = absolute(&path)?;
                (free_id(&roots, &path), path)
            }
        };
        roots.push(Root { id, path });
    }

    let mut config = Config::new(state, cache);
    config.listen = flags.listen.or(settings.listen).unwrap_or(config.listen);
    config.segment_seconds = settings.segment_seconds.unwrap_or(config.segment_seconds);
    config.text_style.family = settings.subtitle_font;
    config.text_style.size_percent = settings.subtitle_size_percent.unwrap_or(config.text_style.size_percent);
    config.backend = flags.backend.unwrap_or(settings.backend);
    config.roots = roots;
    config.recordings = settings.recordings.as_deref().map(absolute).transpose()?;
    config.limits = settings.limits;
    config.allowed_origins = settings.allowed_origins;
    config.trusted_proxies = settings.trusted_proxies;
    config.allowed_sources = settings.allowed_sources;
    config.public_base_url = settings.public_base_url;
    config.ffmpeg = settings.ffmpeg.unwrap_or(config.ffmpeg);
    config.admin = settings.admin;
    config.hdhomerun = settings.hdhomerun;
    config.hdhomerun_token_file = settings.hdhomerun_token_file;
    if let Some(folder) = systemd("CREDENTIALS_DIRECTORY") {
        if let Some(admin) = &mut config.admin {
            admin.password_hash_file = folder.join(&admin.password_hash_file);
        }
        config.hdhomerun_token_file = config.hdhomerun_token_file.map(|file| folder.join(file));
    }
    Ok(config)
}

/// An unused ID made from the folder's name, so that media URLs stay the same when roots are reordered.
fn free_id(taken: &[Root], path: &Path) -> String {
    let name = path.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
    let plain: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let plain = match plain.trim_matches('-') {
        "" => "root".to_owned(),
        plain => plain.to_owned(),
    };
    let names = std::iter::once(plain.clone()).chain((2..).map(|n| format!("{plain}-{n}")));
    names.into_iter().find(|name| taken.iter().all(|root| root.id != *name)).expect("the names are infinite")
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
