//! Lanes between two network namespaces. Any IP program runs over them, by the kernel's TCP and IP. The NICs use
//! shared memory, UDP and Ethernet devices. For root.

use sovia_tests::{
    LaneEnd, LaneNics, LaneScene, free_port, in_turn, installed, skipped, sovia, until,
};
use std::process::Command;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/apps-py/lane.py");

/// Makes a scene, or returns the reason why there is none.
fn scene(test: &str, programs: &[&str], nics: LaneNics, mtu: usize) -> Option<LaneScene> {
    if skipped(test, &[&["ip", "ping"], programs].concat()) {
        return None;
    }
    let scene = LaneScene::new(nics, mtu);
    if scene.is_none() {
        println!("SKIPPED: {test}: no network namespace or no TUN device can be made");
    }
    scene
}

/// Runs over each kind of NIC, with the MTU of Ethernet and that of jumbo frames in turn.
fn over_each(test: &str, programs: &[&str], check: impl Fn(&LaneScene, usize)) {
    let ways: Vec<_> =
        LaneNics::ALL.into_iter().flat_map(|nics| [(nics, 1500), (nics, 9000)]).collect();
    for (nics, mtu) in in_turn(test, &ways, 2) {
        let Some(scene) = scene(test, programs, nics, mtu) else { return };
        check(&scene, mtu);
    }
}

/// Starts both lanes, and waits until they have met.
fn both(scene: &LaneScene) -> [LaneEnd; 2] {
    let ends = [0, 1].map(|host| scene.start(host));
    until("they do not meet", || answers(scene, 0));
    ends
}

/// Returns true if the other host answers.
fn answers(scene: &LaneScene, from: usize) -> bool {
    let to = LaneScene::ADDRESSES[1 - from];
    scene.run(from, &["ping", "-c", "1", "-W", "1", to]).0
}

/// Waits until a program of the second host listens on the port.
fn until_it_listens(scene: &LaneScene, port: u16) {
    let text = format!(":{port} ");
    until("it does not listen", || scene.run(1, &["ss", "-ltnH"]).1.contains(&text));
}

#[test]
fn ping_gets_answers_up_to_the_mtu() {
    over_each("ping_gets_answers_up_to_the_mtu", &[], |scene, mtu| {
        let _ends = both(scene);
        for (address, headers) in [(LaneScene::ADDRESSES[1], 28), (LaneScene::ADDRESSES_V6[1], 48)]
        {
            let longest = (mtu - headers).to_string();
            // Send one packet at a time: of several, ping waits for the last no longer than twice the time of
            // the others.
            for len in ["0", "56", &longest].repeat(3) {
                let ping = ["ping", "-c", "1", "-W", "60", "-M", "do", "-s", len, address];
                let (success, said) = scene.run(0, &ping);
                assert!(success && said.contains("1 received"), "{said}");
            }
            let longer = (mtu - headers + 1).to_string();
            let ping = ["ping", "-c", "1", "-W", "1", "-M", "do", "-s", &longer, address];
            assert!(!scene.run(0, &ping).0, "longer than the MTU");
        }
    });
}

#[test]
fn transfers_arrive_whole_in_both_directions() {
    let test = "transfers_arrive_whole_in_both_directions";
    over_each(test, &["python3", "ss"], |scene, _| {
        let _ends = both(scene);
        for (port, address) in ["10.91.8.3", "fd91::3"].iter().enumerate() {
            let port = 7610 + port as u16;
            let number = port.to_string();
            let server = scene.serve(1, &["python3", SCRIPT, "serve", address, &number]);
            until_it_listens(scene, port);
            let ask = ["python3", SCRIPT, "ask", address, &number, "16000000"];
            assert_eq!(scene.run(0, &ask), (true, "ok\n".to_owned()));
            drop(server);
        }
    });
}

#[test]
fn iperf3_and_redis_run_over_a_lane() {
    let programs = ["iperf3", "redis-server", "redis-benchmark", "ss"];
    over_each("iperf3_and_redis_run_over_a_lane", &programs, |scene, _| {
        let _ends = both(scene);
        let address = LaneScene::ADDRESSES[1];
        let _iperf = scene.serve(1, &["iperf3", "-s", "-B", address, "-p", "7620"]);
        let redis = ["redis-server", "--bind", address, "--port", "7621", "--save", ""];
        let _redis = scene.serve(1, &[&redis[..], &["--protected-mode", "no"]].concat());
        [7620, 7621].iter().for_each(|port| until_it_listens(scene, *port));
        for words in [&["-n", "50M"][..], &["-n", "50M", "-R"], &["-n", "2M", "-P", "8"]] {
            let line = [&["iperf3", "-c", address, "-p", "7620"], words].concat();
            let (mut success, mut said) = (false, String::new());
            // The server may still work for the previous client after that has ended.
            until("the server stays busy", || {
                (success, said) = scene.run(0, &line);
                !said.contains("the server is busy")
            });
            assert!(success && said.contains("receiver"), "{said}");
        }
        let benchmark = ["redis-benchmark", "-h", address, "-p", "7621", "-n", "4000", "-c", "20"];
        let (success, said) = scene.run(0, &[&benchmark[..], &["-q", "-t", "set,get"]].concat());
        assert!(success && said.contains("GET"), "{said}");
    });
}

#[test]
fn ssh_runs_over_a_lane() {
    let test = "ssh_runs_over_a_lane";
    let programs = ["ssh", "sshd", "ssh-keygen", "sha256sum", "ss"];
    let Some(scene) = scene(test, &programs, LaneNics::Udp, 1500) else { return };
    let _ends = both(&scene);
    let _ = std::fs::create_dir_all("/run/sshd");
    let folder = scene.folder().path().to_str().expect("a plain name");
    for key in ["host", "user"] {
        let file = format!("{folder}/{key}");
        let keygen = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", &file];
        assert!(scene.run(1, &keygen).0);
    }
    let settings = format!(
        "ListenAddress 10.91.8.3\nPort 7630\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/user.pub\n\
         StrictModes no\nPermitRootLogin yes\nUsePAM no\nPidFile none\n"
    );
    std::fs::write(format!("{folder}/settings"), settings).expect("a file");
    let sshd = installed("sshd").expect("it is installed");
    let sshd = sshd.to_str().expect("a plain name");
    let _sshd = scene.serve(1, &[sshd, "-D", "-f", &format!("{folder}/settings")]);
    until_it_listens(&scene, 7630);
    let options = format!(
        "-F none -i {folder}/user -p 7630 -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null \
         -o BatchMode=yes root@10.91.8.3"
    );
    let ssh = format!("head -c 5000000 /dev/zero | ssh {options} sha256sum");
    let (success, said) = scene.run(0, &["sh", "-c", &ssh]);
    let (_, local) = scene.run(0, &["sh", "-c", "head -c 5000000 /dev/zero | sha256sum"]);
    assert!(success && said.contains(local.trim()), "{said}");
}

/// Either end is restarted, after any kind of end.
#[test]
fn lane_that_is_started_again_goes_on() {
    let test = "lane_that_is_started_again_goes_on";
    for nics in in_turn(test, &LaneNics::ALL, 1) {
        let Some(scene) = scene(test, &[], nics, 1500) else { return };
        let mut ends = both(&scene).map(Some);
        for host in [0, 1] {
            for signal in [libc::SIGTERM, libc::SIGKILL] {
                let (status, _) = ends[host].take().expect("it is up").end(signal);
                assert_eq!(status.success(), signal == libc::SIGTERM);
                assert!(!scene.has_device(host), "the device has ended with the lane");
                ends[host] = Some(scene.start(host));
                until("the first host gets no answer", || answers(&scene, 0));
                until("the second host gets no answer", || answers(&scene, 1));
            }
        }
    }
}

#[test]
fn peer_that_comes_later_is_found() {
    for nics in LaneNics::ALL {
        let Some(scene) = scene("peer_that_comes_later_is_found", &[], nics, 1500) else { return };
        let first = scene.start(0);
        assert!(!answers(&scene, 0));
        if nics == LaneNics::Shm {
            // A lane finds out after some tries that the other NIC does not exist.
            until("nothing is said of it", || first.said().contains("no lane is up at the peer"));
        }
        let _second = scene.start(1);
        until("it is not found", || answers(&scene, 0));
        assert!(first.said().contains("is connected\n"), "{}", first.said());
    }
}

/// The kernel's TCP sends again the bytes that were under way.
#[test]
fn transfer_outlasts_a_lane_that_is_killed() {
    let test = "transfer_outlasts_a_lane_that_is_killed";
    for nics in in_turn(test, &LaneNics::ALL, 1) {
        let Some(scene) = scene(test, &["python3", "ss"], nics, 9000) else { return };
        let [_first, second] = both(&scene);
        let _server = scene.serve(1, &["python3", SCRIPT, "serve", "10.91.8.3", "7650"]);
        until_it_listens(&scene, 7650);
        std::thread::scope(|scope| {
            let ask = ["python3", SCRIPT, "ask", "10.91.8.3", "7650", "60000000"];
            let run = &scene;
            let asked = scope.spawn(move || run.run(0, &ask));
            let established = ["ss", "-tnH", "state", "established"];
            until("it does not begin", || scene.run(1, &established).1.contains(":7650 "));
            drop(second);
            assert!(!scene.has_device(1));
            let _second = scene.start(1);
            assert_eq!(asked.join().expect("it ends"), (true, "ok\n".to_owned()));
        });
    }
}

#[test]
fn noise_at_its_nic_does_not_disturb_a_lane() {
    let test = "noise_at_its_nic_does_not_disturb_a_lane";
    let Some(scene) = scene(test, &["python3", "ss"], LaneNics::Udp, 9000) else { return };
    let ends = both(&scene);
    let _server = scene.serve(1, &["python3", SCRIPT, "serve", "10.91.8.3", "7640"]);
    until_it_listens(&scene, 7640);
    std::thread::scope(|scope| {
        let run = &scene;
        let noise = ["python3", SCRIPT, "noise", "10.91.7.3", "7600", "20000"];
        let noise = scope.spawn(move || run.run(0, &noise));
        let ask = ["python3", SCRIPT, "ask", "10.91.8.3", "7640", "16000000"];
        assert_eq!(scene.run(0, &ask), (true, "ok\n".to_owned()));
        assert!(noise.join().expect("it ends").0);
    });
    assert!(ends.iter().all(|end| !end.said().contains("gone")), "{}", ends[1].said());
}

#[test]
fn lane_ends_cleanly_and_prints_its_counters() {
    for signal in [libc::SIGTERM, libc::SIGINT] {
        let test = "lane_ends_cleanly_and_prints_its_counters";
        let Some(scene) = scene(test, &[], LaneNics::Udp, 1500) else { return };
        let [first, second] = both(&scene);
        let (status, last) = first.end(signal);
        assert!(status.success(), "{status:?}");
        assert!(last.starts_with("lane7 is down: ") && last.contains("packets sent"), "{last}");
        assert!(!scene.has_device(0));
        until("the peer is not told", || {
            second.said().contains("is gone: the peer has disconnected")
        });
    }
}

/// Impossible options are refused at once, with advice.
#[test]
fn bad_command_lines_are_refused() {
    let test = "bad_command_lines_are_refused";
    let Some(scene) = scene(test, &[], LaneNics::Udp, 1500) else { return };
    let _end = scene.start(0);
    let refused = |host: usize, words: &[&str]| {
        let output = scene.command(host).args(words).output().expect("it starts");
        assert!(!output.status.success() && output.stdout.is_empty(), "{output:?}");
        String::from_utf8(output.stderr).expect("text")
    };
    let address = ["--address", "10.91.8.9/24"];
    let in_use = refused(0, &address);
    assert!(in_use.contains("--nic udp:10.91.7.2:7600") && in_use.contains("in use"), "{in_use}");
    let taken = refused(1, &[&address[..], &["--device", "way"]].concat());
    assert!(
        taken.contains("cannot make the device way: the device exists already")
            && taken.contains("--device"),
        "{taken}"
    );
    let nowhere = refused(1, &[&address[..], &["--netns", "no-such"]].concat());
    assert!(nowhere.contains("--netns no-such"), "{nowhere}");
    let two = refused(1, &[&address[..], &["--address", "10.91.8.10/24"]].concat());
    assert!(two.contains("second IPv4 address"), "{two}");
    let port = free_port().to_string();
    for (mtu, nic) in [("1279", "1280"), ("65536", "65535"), ("x", "invalid")] {
        let nic_place = format!("udp:127.0.0.1:{port}");
        let words = ["lane", "up", "--nic", &nic_place, "--mtu", mtu, "--peer"];
        let output = Command::new(sovia())
            .args(words)
            .args(["10.91.8.3=udp:127.0.0.1:9", "--address", "10.91.8.2/24"])
            .output()
            .expect("it starts");
        let said = String::from_utf8(output.stderr).expect("text");
        assert!(!output.status.success() && said.contains(nic), "{said}");
    }
}

/// Without the right to make a device, the error names the missing privilege.
#[test]
fn lane_without_privileges_names_the_missing_one() {
    let test = "lane_without_privileges_names_the_missing_one";
    if skipped(test, &["setpriv"]) {
        return;
    }
    let lane = ["lane", "up", "--nic", "shm:unprivileged", "--peer", "10.91.8.3=shm:other"];
    let output = Command::new("setpriv")
        .args(["--bounding-set", "-all", "--inh-caps", "-all", "--ambient-caps", "-all"])
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
        .arg(sovia())
        .args(lane)
        .args(["--address", "10.91.8.2/24"])
        .output()
        .expect("setpriv starts");
    let said = String::from_utf8(output.stderr).expect("text");
    if said.contains("setpriv:") {
        println!("SKIPPED: {test}: {}", said.trim());
        return;
    }
    assert!(!output.status.success(), "{said}");
    assert!(said.contains("CAP_NET_ADMIN") || said.contains("/dev/net/tun"), "{said}");
}
