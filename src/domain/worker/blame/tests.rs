use super::*;

const PID: i32 = 4711;

fn record(signal: i32, code: i32, sender: i32) -> Option<SignalRecord> {
    Some(SignalRecord { signal, code, sender, thread: "queue0:src".into() })
}

#[test]
fn every_end_of_a_worker_is_judged() {
    let died = |exit_signal: i32, record: Option<SignalRecord>| Evidence {
        pid: PID,
        exit_signal: Some(exit_signal),
        record,
        ..Evidence::default()
    };
    let silent = |silence: Silence| Evidence { pid: PID, silence: Some(silence), ..Evidence::default() };
    let rows = [
        ("null write", died(SIGSEGV, record(SIGSEGV, 1, 0)), Blame::Job),
        ("abort", died(SIGABRT, record(SIGABRT, SI_TKILL, PID)), Blame::Job),
        ("trap by itself", died(SIGTRAP, record(SIGTRAP, SI_TKILL, PID)), Blame::Job),
        ("stack overflow leaves no record", died(SIGSEGV, None), Blame::Job),
        ("processor time", died(SIGXCPU, None), Blame::Job),
        ("file size", died(SIGXFSZ, None), Blame::Job),
        ("system call refused by kill", died(SIGSYS, record(SIGSYS, 1, 0)), Blame::Job),
        ("kill -SEGV", died(SIGSEGV, record(SIGSEGV, 0, 99)), Blame::Outside),
        ("kill -ABRT from outside the pid namespace", died(SIGABRT, record(SIGABRT, 0, 0)), Blame::Outside),
        ("tgkill by another process", died(SIGABRT, record(SIGABRT, SI_TKILL, 99)), Blame::Outside),
        ("kill -9", died(SIGKILL, None), Blame::Outside),
        ("kill -TERM", died(15, None), Blame::Outside),
        ("own control group out of memory", Evidence { was_own_oom: true, ..died(SIGKILL, None) }, Blame::Job),
        ("exit in the middle of a job", Evidence { pid: PID, exit_code: Some(1), ..Evidence::default() }, Blame::Job),
        ("no status", Evidence { pid: PID, ..Evidence::default() }, Blame::Unexplained),
        ("SIGSTOP", silent(Silence::NoBeat { state: 'T' }), Blame::Outside),
        ("traced", silent(Silence::NoBeat { state: 't' }), Blame::Outside),
        ("hung disk", silent(Silence::NoBeat { state: 'D' }), Blame::Storage),
        ("busy machine", silent(Silence::NoBeat { state: 'R' }), Blame::Unexplained),
        ("slow disk", silent(Silence::NoProgress { is_reading: true }), Blame::Storage),
        ("decoder asleep", silent(Silence::NoProgress { is_reading: false }), Blame::Job),
        ("never done", silent(Silence::Deadline), Blame::Job),
    ];
    for (what, evidence, blame) in rows {
        assert_eq!(judge(&evidence), blame, "{what}");
    }
}

#[test]
fn only_the_jobs_own_faults_are_replayed() {
    let mut log = DeathLog::default();
    assert_eq!(log.record(0, "a", Blame::Job), Consequence::Replay);
    assert_eq!(log.record(20_000, "a", Blame::Outside), Consequence::Retry);
    assert_eq!(log.record(40_000, "a", Blame::Storage), Consequence::Retry);
}

#[test]
fn the_third_unexplained_death_of_a_file_counts() {
    let mut log = DeathLog::default();
    assert_eq!(log.record(0, "a", Blame::Unexplained), Consequence::Retry);
    assert_eq!(log.record(100_000, "a", Blame::Unexplained), Consequence::Retry);
    assert_eq!(log.record(200_000, "b", Blame::Unexplained), Consequence::Retry, "another file");
    assert_eq!(log.record(300_000, "a", Blame::Unexplained), Consequence::Replay);
    assert_eq!(log.record(2_000_000, "a", Blame::Unexplained), Consequence::Retry, "long ago");
}

#[test]
fn three_files_at_once_are_the_machines_fault() {
    let mut log = DeathLog::default();
    log.record(0, "a", Blame::Job);
    log.record(1_000, "b", Blame::Job);
    assert_eq!(log.record(2_000, "c", Blame::Job), Consequence::BackOff);
    assert_eq!(log.record(60_000, "c", Blame::Job), Consequence::Replay, "a minute later");
}

#[test]
fn the_log_is_bounded() {
    let mut log = DeathLog::default();
    for number in 0..1000 {
        log.record(0, &number.to_string(), Blame::Outside);
    }
    assert_eq!(log.deaths.len(), MAX_DEATHS);
}
