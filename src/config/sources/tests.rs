use super::*;
use crate::config::EncoderSetting;

fn load_with(flags: &Flags, environment: &[(&str, &str)]) -> Result<Config, String> {
    let names: Vec<String> = environment.iter().map(|(name, _)| (*name).to_owned()).collect();
    load(flags, &names, &|name| environment.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()))
}

fn config_file(text: &str) -> (tempfile::TempDir, Flags) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("hearthcast.toml");
    std::fs::write(&path, text).unwrap();
    (dir, Flags { config: Some(path), ..Flags::default() })
}

#[test]
fn flags_win_over_environment_over_file_over_defaults() {
    let text = "listen = \"127.0.0.1:1\"\nsegment_seconds = 3\nstate = \"/file\"\n[limits]\nsessions_per_user = 7\nconnections = 99";
    let (_dir, mut flags) = config_file(text);
    flags.listen = Some("127.0.0.1:3".parse().unwrap());
    let environment = [
        ("HEARTHCAST_LISTEN", "127.0.0.1:2"),
        ("HEARTHCAST_SEGMENT_SECONDS", "4.5"),
        ("HEARTHCAST_LIMITS_SESSIONS_PER_USER", "8"),
        ("HEARTHCAST_ROOTS", "/a/Films:/b/films"),
    ];
    let config = load_with(&flags, &environment).unwrap();
    assert_eq!(config.listen.port(), 3);
    assert_eq!(config.segment_seconds, 4.5);
    assert_eq!((config.limits.sessions_per_user, config.limits.connections), (8, 99));
    assert_eq!(config.limits.body_bytes, 64 * 1024);
    assert_eq!(config.state, Path::new("/file"));
    let isolation = |flags: &Flags, environment: &[(&str, &str)]| load_with(flags, environment).unwrap().isolation;
    let process = ("HEARTHCAST_ISOLATION", "process");
    assert_eq!(isolation(&flags, &[process]), IsolationSetting::Process);
    let without_workers = Flags { isolation: Some(IsolationSetting::None), ..flags.clone() };
    assert_eq!(isolation(&without_workers, &[process]), IsolationSetting::None);
    assert!(load_with(&flags, &[("HEARTHCAST_ISOLATION", "container")]).unwrap_err().contains("isolation"));
    let encoders = load_with(&flags, &[("HEARTHCAST_HEVC_ENCODER", "off")]).unwrap();
    assert_eq!((encoders.hevc_encoder, encoders.av1_encoder), (EncoderSetting::Off, EncoderSetting::Auto));
    assert!(load_with(&flags, &[("HEARTHCAST_AV1_ENCODER", "fast")]).unwrap_err().contains("av1_encoder"));
    let roots: Vec<_> = config.roots.iter().map(|root| (root.id.as_str(), root.path.to_str().unwrap())).collect();
    assert_eq!(roots, [("films", "/a/Films"), ("films-2", "/b/films")]);
    assert_eq!(load_with(&Flags { roots: vec!["/c".into()], ..flags }, &environment).unwrap().roots.len(), 1);
}

#[test]
fn folders_come_from_systemd_then_xdg_then_home() {
    let folders = |environment: &[(&str, &str)]| {
        let config = load_with(&Flags::default(), environment).unwrap();
        (config.state.display().to_string(), config.cache.display().to_string())
    };
    let pair = |state: &str, cache: &str| (state.to_owned(), cache.to_owned());
    let home = ("HOME", "/home/a");
    assert_eq!(folders(&[home]), pair("/home/a/.local/state/hearthcast", "/home/a/.cache/hearthcast"));
    let xdg = [home, ("XDG_STATE_HOME", "/s"), ("XDG_CACHE_HOME", "/c")];
    assert_eq!(folders(&xdg), pair("/s/hearthcast", "/c/hearthcast"));
    let systemd = [home, ("STATE_DIRECTORY", "/var/lib/h:/other"), ("CACHE_DIRECTORY", "/var/cache/h")];
    assert_eq!(folders(&systemd), pair("/var/lib/h", "/var/cache/h"));
    assert_eq!(folders(&[home, ("HEARTHCAST_STATE", "/own")]), pair("/own", "/own/cache"));
    assert!(load_with(&Flags::default(), &[]).unwrap_err().contains("--state"));
}

#[test]
fn a_state_can_be_a_database_whose_copy_is_in_the_default_folder() {
    let address = "postgres://user:secret@db/name";
    let environment = [
        ("HOME", "/home/a"),
        ("STATE_DIRECTORY", "/var/lib/h"),
        ("CREDENTIALS_DIRECTORY", "/run/credentials"),
        ("HEARTHCAST_STATE", address),
        ("HEARTHCAST_STATE_CA_FILE", "authority.pem"),
    ];
    let loaded = load_with(&Flags::default(), &environment);
    if cfg!(feature = "cluster") {
        let config = loaded.unwrap();
        assert_eq!(config.state.to_str(), Some("/var/lib/h"));
        let database = config.database_settings().unwrap();
        let authority = Path::new("/run/credentials/authority.pem");
        assert_eq!((database.address, database.ca_file), (address, Some(authority)));
        assert!(!format!("{config:?}").contains("secret"));
    } else {
        assert!(loaded.unwrap_err().contains("--features cluster"));
    }
}

#[test]
fn a_queue_needs_an_address_and_a_build_with_remote_workers() {
    let (_dir, flags) = config_file("state = \"/s\"");
    let load = |queue: &str| load_with(&flags, &[("HEARTHCAST_QUEUE", queue)]);
    let fault = load("192.168.1.10").unwrap_err();
    if cfg!(feature = "cluster") {
        assert!(fault.contains("nats://127.0.0.1:4222"), "{fault}");
        assert_eq!(load("nats://a:4222").unwrap().queue.as_deref(), Some("nats://a:4222"));
        let queue = Some("tls://b:4222".to_owned());
        let flags = Flags { queue: queue.clone(), ..flags.clone() };
        assert_eq!(load_with(&flags, &[("HEARTHCAST_QUEUE", "nats://a:4222")]).unwrap().queue, queue);
    } else {
        assert!(fault.contains("--features cluster"), "{fault}");
    }
}

#[test]
fn a_collector_needs_an_address_and_a_build_with_traces() {
    let (_dir, flags) = config_file("state = \"/s\"");
    let load = |address: &str| load_with(&flags, &[("HEARTHCAST_OTLP_ENDPOINT", address)]);
    let fault = load("127.0.0.1:4318").unwrap_err();
    if cfg!(feature = "otlp") {
        assert!(fault.contains("http://127.0.0.1:4318"), "{fault}");
        assert_eq!(load("http://a:4318").unwrap().otlp_endpoint.as_deref(), Some("http://a:4318"));
    } else {
        assert!(fault.contains("--features otlp"), "{fault}");
    }
}

#[test]
fn a_peer_address_has_a_host_and_no_path() {
    let (_dir, flags) = config_file("state = \"/s\"");
    for (address, is_valid) in
        [("http://10.0.0.2:8470", true), ("http://[fd00::1]:80", true), ("https://a", false), ("http://a/b", false)]
    {
        let loaded = load_with(&flags, &[("HEARTHCAST_PEER_ADDRESS", address)]);
        assert_eq!(loaded.is_ok_and(|config| config.peer_address.as_deref() == Some(address)), is_valid, "{address}");
    }
}

#[test]
fn all_errors_are_reported_and_unknown_keys_with_their_line() {
    let (_dir, flags) = config_file("state = \"/s\"\nlisten_on = 3");
    let fault = load_with(&flags, &[]).unwrap_err();
    assert!(fault.contains("line 2") && fault.contains("unknown field `listen_on`"), "{fault}");

    let text = "state = \"/s\"\nsegment_seconds = 9\nsubtitle_font = \"a,b\"\nallowed_origins = [\"https://tv.example/\"]\n\
                roots = [\"/a\", {id = \"a\", path = \"/b\"}]\npublic_base_url = \"tv\"\n[limits]\nbody_bytes = 1";
    let (_dir, flags) = config_file(text);
    let fault = load_with(&flags, &[]).unwrap_err();
    for named in
        ["segment_seconds", "subtitle_font", "https://tv.example/", "twice", "public_base_url", "limits.body_bytes"]
    {
        assert!(fault.contains(named), "{named} in {fault}");
    }
    let (_dir, flags) = config_file("state = \"/s\"");
    for (url, prefix) in [
        ("https://home.example", Some("")),
        ("https://home.example/", Some("")),
        ("http://10.0.0.2:8470/tv", Some("/tv")),
        ("https://[fd00::1]/a/tv-1/", Some("/a/tv-1")),
        ("https:///tv", None),
        ("https://user@home.example/tv", None),
        ("https://home.example/tv?x", None),
        ("https://home.example/a//b", None),
        ("https://home.example/../tv", None),
        ("https://home.example/api", None),
    ] {
        let loaded = load_with(&flags, &[("HEARTHCAST_PUBLIC_BASE_URL", url)]);
        assert_eq!(loaded.ok().as_ref().map(|config| config.path_prefix()), prefix, "{url}");
    }
    assert!(load_with(&flags, &[("HEARTHCAST_LIMITS_NOPE", "1")]).unwrap_err().contains("nope"));
    assert!(load_with(&flags, &[("HEARTHCAST_SEGMENT_SECONDS", "NaN")]).unwrap_err().contains("segment_seconds"));
    assert!(load_with(&flags, &[("HEARTHCAST_LIMITS_LOGIN_DAYS", "-1")]).is_err());
}

#[test]
fn the_example_file_contains_the_defaults() {
    let example = include_str!("../../../assets/hearthcast.example.toml");
    let (_dir, flags) = config_file(example);
    let loaded = load_with(&flags, &[]).unwrap();
    let mut defaults = Config::new("/var/lib/hearthcast".into(), "/var/cache/hearthcast".into());
    // The default in unit tests is another one.
    defaults.isolation = IsolationSetting::Process;
    defaults.roots = vec![Root { id: "films".into(), path: "/srv/films".into() }];
    defaults.limits.concurrent_jobs = loaded.limits.concurrent_jobs;
    assert_eq!(format!("{loaded:#?}"), format!("{defaults:#?}"));

    // The commented-out settings are valid too; the token file requires the tuner to be on.
    let all: String = example.lines().map(|line| line.strip_prefix("#: ").unwrap_or(line).to_owned() + "\n").collect();
    let all = all.replace("hdhomerun = false", "hdhomerun = true");
    let all = if cfg!(feature = "cluster") { all } else { all.replace("\nqueue = ", "\n# queue = ") };
    let all = if cfg!(feature = "cluster") { all } else { all.replace("\nsegments", "\n# segments") };
    let all = if cfg!(feature = "otlp") { all } else { all.replace("\notlp_endpoint = ", "\n# otlp_endpoint = ") };
    let (_dir, flags) = config_file(&all);
    let config = load_with(&flags, &[]).unwrap();
    assert_eq!(config.admin.unwrap().username, "admin");
    assert_eq!((config.allowed_origins.len(), config.trusted_proxies.len()), (1, 1));
}

/// The names of all settings, from the error about an unknown one.
fn setting_names(unknown: &str) -> Vec<String> {
    let (_dir, flags) = config_file(unknown);
    let error = load_with(&flags, &[]).unwrap_err();
    let names: Vec<_> = error.split("expected one of ").nth(1).expect(&error).split('`').collect();
    names.into_iter().filter(|name| name.starts_with(|c: char| c.is_ascii_lowercase())).map(str::to_owned).collect()
}

#[test]
fn the_example_file_and_the_table_of_the_readme_have_every_setting() {
    let example = include_str!("../../../assets/hearthcast.example.toml");
    let readme = include_str!("../../../README.md");
    let names = [setting_names("nothing = 1"), setting_names("[limits]\nnothing = 1")].concat();
    assert!(names.len() > 30 && names.iter().any(|name| name == "login_days"), "{names:?}");
    for name in names {
        let lines = example.lines().map(|line| line.strip_prefix("#: ").unwrap_or(line));
        let is_setting = |line: &str| line.starts_with(&format!("{name} = ")) || line == format!("[{name}]");
        assert!(lines.into_iter().any(is_setting), "{name} is not in the example file");
        assert!(
            readme.contains(&format!("`{name}`")) || readme.contains(&format!("`[{name}]`")),
            "{name} is not in README.md"
        );
    }
}

#[test]
fn unknown_variables_are_reported_with_the_most_similar_one() {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let suggests = |name: &str, best: &str| {
        let warnings = unknown_variables(&names(&[name]));
        assert_eq!(warnings, [format!("the variable {name} is not a setting and has no effect; did you mean {best}?")]);
    };
    suggests("HEARTHCAST_TRUSTED_PROXY", "HEARTHCAST_TRUSTED_PROXIES");
    suggests("HEARTHCAST_ALLOWED_ORIGIN", "HEARTHCAST_ALLOWED_ORIGINS");
    suggests("HEARTHCAST_LISTEN_ADDRESS", "HEARTHCAST_LISTEN");
    let known = ["HEARTHCAST_LOG", "HEARTHCAST_LISTEN", "HEARTHCAST_listen", "HEARTHCAST_LIMITS_BODY_BYTES", "HOME"];
    assert_eq!(unknown_variables(&names(&known)), [""; 0]);
}

#[test]
fn state_and_cache_inside_a_library_folder_are_rejected_even_by_symlink() {
    let dir = tempfile::tempdir().unwrap();
    let library = dir.path().join("library");
    std::fs::create_dir(&library).unwrap();
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(&library, &link).unwrap();
    let faults = |state: &Path, cache: &Path, root: &Path| {
        let mut config = Config::new(state.to_owned(), cache.to_owned());
        config.roots.push(Root { id: "library".into(), path: root.to_owned() });
        config.errors()
    };
    let (outside, sibling) = (dir.path().join("state"), dir.path().join("library-cache"));
    assert_eq!(faults(&outside, &sibling, &library), [""; 0]);
    assert_eq!(faults(&outside, &outside.join("cache"), &outside.join("recordings")), [""; 0], "a root inside state");
    let inside = faults(&library.join("a/state"), &sibling, &link);
    assert!(
        inside.len() == 1 && inside[0].starts_with("state ") && inside[0].contains("/a/state is inside"),
        "{inside:?}"
    );
    let cache = faults(&outside, &link.join("cache"), &library);
    assert!(cache.len() == 1 && cache[0].starts_with("cache "), "{cache:?}");
    assert_eq!(faults(&library, &sibling, &library).len(), 1);
}
