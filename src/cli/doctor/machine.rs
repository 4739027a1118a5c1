//! The machine's clock, ports, and limits of open files.

use std::io::ErrorKind;
use std::net::{TcpListener, UdpSocket};
use std::path::Path;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::Finding::{self, Failed, Passed, Warning};
use crate::config::Config;

/// Files of the state that the server writes most often.
const STATE_FILES: [&str; 2] = ["journal", "journal.tail"];
/// How far the clock may be before the last change of the state.
const MAX_CLOCK_BACK: Duration = Duration::from_secs(60);
/// Before this, seconds since 1970 (2026-01-01), the clock was never set: this program did not exist.
const EARLIEST_SECONDS: i64 = 1_767_225_600;
/// Files that the server has open beside its connections.
const OTHER_FILES: u64 = 512;
/// Where systemd-timesyncd notes that it has set the clock.
const TIMESYNC_FOLDER: &str = "/run/systemd/timesync";
/// The port on which network tuners are searched (SSDP).
const SSDP_PORT: u16 = 1900;

/// The clock: set, not before the state, and synchronized as far as systemd knows.
pub fn check_clock(config: &Config) -> Vec<Finding> {
    let zone = TimeZone::system();
    let zone = zone.iana_name().unwrap_or("UTC (no time zone is set: sudo timedatectl set-timezone Europe/London)");
    let newest = STATE_FILES.iter().filter_map(|name| last_change(&config.state.join(name))).max();
    let mut findings = vec![compare_clock(SystemTime::now(), newest)];
    if matches!(findings[0], Passed(_)) && waits_for_time_server(Path::new(TIMESYNC_FOLDER)) {
        let text = "the clock is not synchronized: `timedatectl timesync-status` says why; channels follow the clock";
        findings.push(Warning(text.to_owned()));
    }
    findings.push(Passed(format!("time zone {zone}")));
    findings
}

fn compare_clock(now: SystemTime, newest: Option<SystemTime>) -> Finding {
    let shown =
        Timestamp::try_from(now).map_or_else(|_| "unknown".to_owned(), |now| now.strftime("%F %T UTC").to_string());
    let seconds = Timestamp::try_from(now).map_or(0, Timestamp::as_second);
    let back = newest.and_then(|newest| newest.duration_since(now).ok()).filter(|back| *back > MAX_CLOCK_BACK);
    match back {
        _ if seconds < EARLIEST_SECONDS => {
            Failed(format!("the clock is wrong ({shown}): sudo timedatectl set-ntp true, and wait until it is set"))
        }
        Some(back) => Warning(format!(
            "the clock ({shown}) is {} s before the last change of the state: sudo timedatectl set-ntp true",
            back.as_secs()
        )),
        None => Passed(format!("the clock is {shown}")),
    }
}

fn last_change(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path).ok()?.modified().ok()
}

/// Whether systemd's time service runs in `folder` and has not set the clock yet.
fn waits_for_time_server(folder: &Path) -> bool {
    folder.is_dir() && !folder.join("synchronized").exists()
}

/// The ports that the server opens.
pub fn check_ports(config: &Config) -> Vec<Finding> {
    let mut findings = vec![check_port(config)];
    if config.hdhomerun_token_file.is_some() {
        findings.push(match UdpSocket::bind(("0.0.0.0", SSDP_PORT)) {
            Ok(_) => Passed(format!("UDP port {SSDP_PORT} is free: the tuner can be announced")),
            // Programs share this port.
            Err(cause) if cause.kind() == ErrorKind::AddrInUse => {
                Passed(format!("UDP port {SSDP_PORT} is shared with another program that announces itself"))
            }
            Err(cause) => Warning(format!("UDP port {SSDP_PORT}: {cause}; the tuner is not announced")),
        });
    }
    findings
}

fn check_port(config: &Config) -> Finding {
    let listen = config.listen;
    match TcpListener::bind(listen) {
        Ok(_) if listen.ip().is_loopback() => Passed(format!(
            "{listen} is free; only this machine reaches it: set listen to 0.0.0.0:{} for others",
            listen.port()
        )),
        Ok(_) => Passed(format!("{listen} is free; other machines need it open in the firewall")),
        Err(cause) if cause.kind() == ErrorKind::AddrInUse => Warning(format!(
            "{listen} is in use by a running server or another program: `ss -ltnp 'sport = :{}'` names it",
            listen.port()
        )),
        Err(cause) if cause.kind() == ErrorKind::PermissionDenied => {
            Failed(format!("{listen}: {cause}; ports below 1024 are for root: choose another one, as 8470"))
        }
        Err(cause) if cause.kind() == ErrorKind::AddrNotAvailable => {
            Failed(format!("{listen}: this machine does not have that address: `ip address` lists those it has"))
        }
        Err(cause) => Failed(format!("{listen}: {cause}; choose another address in listen")),
    }
}

/// The limit of open files, which bounds the connections.
pub fn check_open_files(config: &Config) -> Finding {
    let needed = config.limits.connections as u64 + OTHER_FILES;
    match rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum {
        Some(maximum) if maximum < needed => Warning(format!(
            "only {maximum} files may be open, {needed} are needed for limits.connections: set LimitNOFILE={needed} in \
             the systemd unit, or fewer connections"
        )),
        _ => Passed(format!("{needed} files may be open at once")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_was_never_set_or_went_back_is_found() {
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let now = at(1_800_000_000);
        assert!(matches!(compare_clock(at(3600), None), Failed(text) if text.contains("1970-01-01 01:00:00 UTC")));
        assert!(matches!(compare_clock(now, None), Passed(_)));
        assert!(matches!(compare_clock(now, Some(now + Duration::from_secs(30))), Passed(_)));
        let Warning(text) = compare_clock(now, Some(now + Duration::from_secs(3600))) else { panic!("an hour back") };
        assert!(text.contains("3600 s before the last change of the state"), "{text}");
    }

    #[test]
    fn a_clock_that_no_time_server_has_set_is_found() {
        let folder = tempfile::tempdir().unwrap();
        assert!(waits_for_time_server(folder.path()));
        std::fs::write(folder.path().join("synchronized"), "").unwrap();
        assert!(!waits_for_time_server(folder.path()) && !waits_for_time_server(&folder.path().join("none")));
    }

    #[test]
    fn a_port_in_use_names_the_command_that_finds_the_program() {
        let folder = tempfile::tempdir().unwrap();
        let busy = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut config = Config::new(folder.path().join("state"), folder.path().join("cache"));
        config.listen = busy.local_addr().unwrap();
        assert!(matches!(check_port(&config), Warning(text) if text.contains("ss -ltnp")));
        config.listen = "192.0.2.1:8470".parse().unwrap();
        assert!(matches!(check_port(&config), Failed(text) if text.contains("ip address")));
    }
}
