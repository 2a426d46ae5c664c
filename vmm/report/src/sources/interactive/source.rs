//! The content of the first source: its kernels, its ratings, its times. Also the policies that stand for the kernels,
//! and the number of vCPUs of each load that compute here.

/// The source's kernels, and the policies that stand for them.
pub(super) const KERNELS: [(&str, &str); 3] =
    [("-mm2", "host"), ("-mm2, no yield", "host-noyield"), ("rsdl, no yield", "rsdl+none")];

/// The source's ratings for a load, by probe and kernel; two where it gives two.
pub(super) struct Rated {
    pub(super) load: &'static str,
    pub(super) title: &'static str,
    pub(super) ratings: [[&'static str; 3]; 5],
    /// Here: vCPUs of the load that compute whenever they can.
    pub(super) computing: u32,
    /// Whether they never wait for anything else.
    pub(super) always: bool,
}

pub(super) const GOOD: [&str; 3] = ["good", "good", "good"];

#[rustfmt::skip] // a table
pub(super) const RATED: [Rated; 6] = [
    Rated { load: "none", title: "no load", computing: 0, always: false,
            ratings: [["great", "great", "great"], GOOD, GOOD, GOOD, GOOD] },
    Rated { load: "memload", title: "memload x10", computing: 10, always: true,
            ratings: [["awful/bad", "great", "good"], ["good", "good", "ok/good"], GOOD, GOOD, GOOD] },
    Rated { load: "execload", title: "execload x10", computing: 10, always: true,
            ratings: [["awful/bad", "bad/good", "good"], ["good", "bad/good", "ok/good"], ["good", "bad", "good"],
                      ["good", "bad/good", "good"], ["good", "bad/good", "good"]] },
    Rated { load: "forkload", title: "forkload x10", computing: 0, always: false,
            ratings: [["good", "good", "great"], ["good", "good", "ok/good"], GOOD, ["good", "good", "ok/good"], GOOD] },
    Rated { load: "make", title: "make -j5", computing: 5, always: false,
            ratings: [["ok", "good", "good/great"], ["good", "good", "ok/good"], GOOD, GOOD, GOOD] },
    Rated { load: "make-ccache", title: "make -j5, ccache", computing: 0, always: false,
            ratings: [["ok", "good", "awful"], ["good", "good", "bad"], ["good", "good", "bad"],
                      ["good", "good", "bad/ok"], ["good", "good", "bad/ok"]] },
];

/// The source's times of its builds, by kernel (unit: s): real, user, sys.
pub(super) const TIMES: [(&str, [[f64; 3]; 3]); 2] = [
    ("make", [[481.857, 530.659, 489.282], [439.127, 483.494, 450.740], [30.910, 33.722, 29.542]]),
    ("make-ccache", [[126.182, 139.032, 121.832], [99.466, 108.787, 97.250], [19.741, 22.993, 20.109]]),
];
