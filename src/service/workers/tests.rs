use super::*;
use crate::engine::remote::identity::WorkerIdentity;
use crate::store::tests::records::assert_golden;

#[test]
fn records_keep_their_bytes() {
    assert_golden::<EnrolledWorker>("workers");
    assert_golden::<QueueSecret>("queue-keys");
}

fn open(folder: &tempfile::TempDir, clock: Clock) -> Arc<RemoteWorkers> {
    let state = folder.path().join("state");
    let mut config = Config::new(state.clone(), folder.path().join("cache"));
    config.queue = Some("nats://queue.example:4222".into());
    RemoteWorkers::open(&config, Store::open_waiting(&state).unwrap(), clock).unwrap().unwrap()
}

#[tokio::test]
async fn a_code_enrols_one_worker_whose_token_lasts_a_day() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Clock::default();
    let workers = open(&folder, clock.clone());
    let identity = WorkerIdentity::generate().unwrap();
    let key = identity.public_key();
    let code = |workers: &RemoteWorkers| workers.create_code().0;
    let error = |result: Result<Credential>| result.unwrap_err().code;
    assert_eq!(error(workers.enrol("ABCDEFGH", "desktop", &key).await), Code::InvalidCredentials);
    let valid = code(&workers);
    assert_eq!(error(workers.enrol(&valid, "", &key).await), Code::ValidationError);
    assert_eq!(error(workers.enrol(&valid, "desktop", "AAAA").await), Code::ValidationError);
    let credential = workers.enrol(&valid, "desktop", &key).await.unwrap();
    assert_eq!(error(workers.enrol(&valid, "desktop", &key).await), Code::InvalidCredentials, "it was used");
    assert_eq!(credential.queue, "nats://queue.example:4222");
    assert_eq!(workers.authenticate(&credential.token).unwrap().user_id, credential.worker_id);
    assert_eq!(workers.authenticate("hc_A").unwrap_err().code, Code::Unauthorized);

    clock.advance(std::time::Duration::from_secs(25 * 3600));
    assert_eq!(workers.authenticate(&credential.token).unwrap_err().code, Code::TokenExpired);
    let (id, time) = (credential.worker_id.as_str(), clock.now().as_second());
    let sign = |identity: &WorkerIdentity, time| identity.sign(&renewal_text(id, time));
    let stranger = WorkerIdentity::generate().unwrap();
    assert_eq!(error(workers.renew(id, time, &sign(&stranger, time)).await), Code::InvalidCredentials);
    assert_eq!(error(workers.renew(id, time - 301, &sign(&identity, time - 301)).await), Code::InvalidCredentials);
    let renewed = workers.renew(id, time, &sign(&identity, time)).await.unwrap();
    assert!(workers.authenticate(&renewed.token).is_ok());

    assert_eq!(workers.remove("w_0").await.unwrap_err().code, Code::NotFound);
    workers.remove(id).await.unwrap();
    assert_eq!(workers.authenticate(&renewed.token).unwrap_err().code, Code::Unauthorized);
    assert_eq!(error(workers.renew(id, time, &sign(&identity, time)).await), Code::InvalidCredentials);
}

#[tokio::test]
async fn enrolled_workers_are_stored() {
    let folder = tempfile::tempdir().unwrap();
    let key = WorkerIdentity::generate().unwrap().public_key();
    let (before, configuration) = {
        let workers = open(&folder, Clock::default());
        workers.enrol(&workers.create_code().0, "desktop", &key).await.unwrap();
        (workers.enrolled(), workers.queue_configuration().await.unwrap())
    };
    let workers = open(&folder, Clock::default());
    assert_eq!(workers.enrolled(), before);
    assert_eq!(workers.queue_configuration().await.unwrap(), configuration, "its keys are stored");
    assert!(configuration.contains("port: 4222\n"));
    assert!(workers.is_enrolled(&before[0].0));
}
