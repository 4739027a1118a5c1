use super::*;
use crate::domain::subtitles::TextStyle;
use crate::engine::damaged_films::run_ffmpeg;
use crate::engine::gst::{check_image, examine};
use crate::engine::worker::message::TrialScope;

fn task_of(job: &StillJob) -> StillTask {
    let encoder = select_still_encoder(job, &examine(TrialScope::All).unwrap()).unwrap();
    StillTask::from_job(job, encoder).unwrap()
}

/// Types of the NAL units of an access unit (ITU-T H.264 table 7-1).
fn unit_types(frame: &[u8]) -> Vec<u8> {
    frame.windows(4).filter(|bytes| bytes[..3] == [0, 0, 1]).map(|bytes| bytes[3] & 0x1f).collect()
}

#[test]
fn a_slate_is_one_idr_picture_and_pictures_that_repeat_it() {
    let job = StillJob::new((320, 180)).with_text("Back soon", &TextStyle::default()).unwrap();
    for job in [StillJob::new((320, 180)), job] {
        let still = task_of(&job).encode().unwrap();
        assert_eq!(still.frames.len(), FRAMES as usize);
        let first = unit_types(&still.frames[0]);
        assert_eq!(first[0], 9, "an access unit delimiter: {first:?}");
        for kind in [7, 8, 5] {
            assert!(first.contains(&kind), "{kind} in {first:?}");
        }
        for frame in &still.frames[1..] {
            let types = unit_types(frame);
            assert!(types[0] == 9 && types.contains(&1) && !types.contains(&5), "{types:?}");
        }
        assert_eq!(StillImage::from_annex_b(&still.frames.concat()), still);
    }
}

#[test]
fn a_machine_without_an_element_leaves_the_slate_to_ffmpeg() {
    let mut report = examine(TrialScope::All).unwrap();
    let plain = StillJob::new((320, 180));
    let text = plain.clone().with_text("text", &TextStyle::default()).unwrap();
    assert!(select_still_encoder(&text, &report).is_ok());
    report.optional.retain(|element| element != "assrender");
    assert_eq!(select_still_encoder(&text, &report).unwrap_err(), "this GStreamer has no assrender");
    assert!(select_still_encoder(&plain, &report).is_ok());
    report.encoder_faults.iter_mut().for_each(|fault| *fault = Some("no".into()));
    assert!(select_still_encoder(&plain, &report).is_err());
}

#[test]
fn a_broken_image_is_an_error_of_decoding() {
    crate::engine::gst::initialize().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.png");
    run_ffmpeg("-f lavfi -i testsrc2=s=200x100 -frames:v 1".split(' '), &path);
    let bytes = std::fs::read(&path).unwrap();
    let image = |bytes: &[u8]| Arc::new(Image::from_bytes(bytes).unwrap().unwrap());
    assert_eq!(check_image(&image(&bytes)), Ok(()));
    let mut changed = bytes.clone();
    let middle = changed.len() / 2;
    changed[middle..middle + 64].fill(0xff);
    for broken in [&bytes[..bytes.len() / 2], &bytes[..40], &changed] {
        let broken = image(broken);
        assert!(matches!(check_image(&broken), Err(RunError::Decode(_))), "{:?}", check_image(&broken));
        let job = StillJob::new((320, 180)).with_image(broken, "a.png");
        let error = task_of(&job).encode().unwrap_err();
        assert!(matches!(error, RunError::Decode(_)), "{error:?}");
    }
}

#[test]
fn a_delimiter_is_added_where_none_is() {
    let with = [&[0, 0, 0, 1, 9, 0x10, 0, 0, 1, 0x65][..], &[0, 0, 1, 9, 0x10, 0, 0, 1, 0x65]];
    for unit in with {
        assert_eq!(with_delimiter(unit), unit);
    }
    assert_eq!(with_delimiter(&[0, 0, 1, 0x65]), [0, 0, 0, 1, 9, 0xf0, 0, 0, 1, 0x65]);
}
