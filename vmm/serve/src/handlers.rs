//! The work of each endpoint. What may wait is done on threads made for it.

use crate::answer::Refused;
use crate::crew::Crew;
use crate::extract::{Json, Path, Query, Raw};
use crate::large;
use crate::peer::Peer;
use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::time::Duration;
use stile_api::{
    Change, Frame, NodeInfo, PcpusRequest, PcpusView, PolicyRequest, PolicyView, Problem, Reason, RecordingRequest,
    RecordingView, SchedulingRequest, StopMode, VmDetails, VmInfo,
};
use stile_config::{Span, VmConfig};
use stile_node::{Guarded, Node, Wanted};
use stile_recording::chrome;

/// How long a guest has to switch itself off, where the request does not say.
const GRACE: Duration = Duration::from_secs(30);
/// How far back a trace goes, where the request does not say.
const LAST: Duration = Duration::from_secs(10);

pub(crate) type Answer<T> = Result<axum::Json<T>, Refused>;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct VmName {
    /// Name of the VM.
    name: String,
}

impl VmName {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct VcpuOf {
    /// Name of the VM.
    name: String,
    /// Number of the vCPU in its VM.
    #[schemars(range(max = u64::MAX))]
    index: u64,
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct ChangeId {
    /// Number of the change.
    #[schemars(range(max = u64::MAX))]
    id: u64,
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct CreateQuery {
    /// Only check whether it could be done.
    #[serde(default)]
    dry_run: bool,
    /// Start the VM at once.
    #[serde(default)]
    start: bool,
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct DeleteQuery {
    /// Stop the VM first, at once, if it runs.
    #[serde(default)]
    force: bool,
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct StopQuery {
    /// How.
    #[serde(default)]
    mode: StopMode,
    /// How long a guest has to switch itself off, such as `30s`, which it is without this.
    grace: Option<Span>,
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct ChangeQuery {
    /// Only check whether it could be done, and tell what would change.
    #[serde(default)]
    dry_run: bool,
    /// Take the change back after this time, such as `30s`, unless it is confirmed.
    confirm_within: Option<Span>,
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct LastQuery {
    /// How far to look back, such as `10s`, which it is without this. Each pCPU keeps its last 16,384 events.
    last: Option<Span>,
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct TraceQuery {
    /// How far to look back, such as `10s`, which it is without this. Each pCPU keeps its last 16,384 events.
    last: Option<Span>,
    /// What the answer is.
    #[serde(default)]
    format: TraceFormat,
}

/// What a trace is written as.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TraceFormat {
    /// JSON for ui.perfetto.dev and chrome://tracing.
    #[default]
    Chrome,
    /// A recording, for `stile why` and `stile trace`.
    Recording,
}

impl ChangeQuery {
    fn guarded(&self) -> Guarded {
        Guarded { dry_run: self.dry_run, confirm_within: self.confirm_within.map(Span::duration) }
    }
}

pub(crate) async fn node(State(crew): State<Crew>) -> Answer<NodeInfo> {
    crew.look(|node| Ok(node.info())).await.map(axum::Json)
}

pub(crate) async fn list(State(crew): State<Crew>) -> Answer<Vec<VmInfo>> {
    crew.look(|node| Ok(node.list())).await.map(axum::Json)
}

/// The body is checked by the rules of the configuration file, whose messages say more than those of a deserializer.
#[derive(Deserialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct VmTable(#[schemars(with = "VmConfig")] Value);

pub(crate) async fn create(
    State(crew): State<Crew>,
    Query(query): Query<CreateQuery>,
    Json(VmTable(table)): Json<VmTable>,
) -> Result<(StatusCode, axum::Json<VmInfo>), Refused> {
    let Value::Object(table) = table else {
        return Err(Problem::new(Reason::Invalid, "the body: an object is expected, with the keys of [[vm]]").into());
    };
    let made = crew.work(move |node| {
        let info = node.create(&table, query.dry_run)?;
        match query.start && !query.dry_run {
            true => node.start(&info.name).map_err(|problem| match node.delete(&info.name, false) {
                Ok(()) => problem,
                Err(_) => {
                    let message = format!("{}; the VM was created, and is stopped", problem.message);
                    Problem { message, ..problem }
                }
            }),
            false => Ok(info),
        }
    });
    let status = if query.dry_run { StatusCode::OK } else { StatusCode::CREATED };
    made.await.map(|info| (status, axum::Json(info)))
}

pub(crate) async fn inspect(State(crew): State<Crew>, Path(vm): Path<VmName>) -> Answer<VmDetails> {
    crew.look(move |node| node.inspect(&vm.name)).await.map(axum::Json)
}

pub(crate) async fn delete(
    State(crew): State<Crew>,
    Path(vm): Path<VmName>,
    Query(query): Query<DeleteQuery>,
) -> Result<StatusCode, Refused> {
    crew.work(move |node| node.delete(&vm.name, query.force)).await.map(|()| StatusCode::NO_CONTENT)
}

pub(crate) async fn start(State(crew): State<Crew>, Path(vm): Path<VmName>) -> Answer<VmInfo> {
    crew.work(move |node| node.start(&vm.name)).await.map(axum::Json)
}

pub(crate) async fn pause(State(crew): State<Crew>, Path(vm): Path<VmName>) -> Answer<VmInfo> {
    crew.work(move |node| node.pause(&vm.name)).await.map(axum::Json)
}

pub(crate) async fn resume(State(crew): State<Crew>, Path(vm): Path<VmName>) -> Answer<VmInfo> {
    crew.work(move |node| node.resume(&vm.name)).await.map(axum::Json)
}

pub(crate) async fn stop(
    State(crew): State<Crew>,
    Path(vm): Path<VmName>,
    Query(query): Query<StopQuery>,
) -> Answer<VmInfo> {
    let grace = query.grace.map_or(GRACE, Span::duration);
    let stop = move |node: &Node| node.stop(&vm.name, query.mode, grace);
    let stopped = match query.mode {
        StopMode::Soft => crew.end(stop).await,
        StopMode::Hard => crew.work(stop).await,
    };
    stopped.map(axum::Json)
}

pub(crate) async fn schedule(
    State(crew): State<Crew>,
    Extension(peer): Extension<Peer>,
    Path(vm): Path<VmName>,
    Query(query): Query<ChangeQuery>,
    Json(request): Json<SchedulingRequest>,
) -> Answer<Change> {
    let wanted = Wanted { vms: vec![(vm.name, request)], ..Wanted::default() };
    crew.work(move |node| node.change(peer.author(), wanted, query.guarded())).await.map(axum::Json)
}

pub(crate) async fn type_at(
    State(crew): State<Crew>,
    Path(vm): Path<VmName>,
    Raw(keys): Raw,
) -> Result<StatusCode, Refused> {
    crew.work(move |node| node.type_at(&vm.name, &keys)).await.map(|()| StatusCode::NO_CONTENT)
}

pub(crate) async fn policy(State(crew): State<Crew>) -> Answer<PolicyView> {
    crew.look(|node| Ok(node.policy())).await.map(axum::Json)
}

pub(crate) async fn set_policy(
    State(crew): State<Crew>,
    Extension(peer): Extension<Peer>,
    Query(query): Query<ChangeQuery>,
    Json(request): Json<PolicyRequest>,
) -> Answer<Change> {
    let change = crew.work(move |node| {
        let policy = Some(node.wanted_policy(&request)?);
        node.change(peer.author(), Wanted { policy, ..Wanted::default() }, query.guarded())
    });
    change.await.map(axum::Json)
}

pub(crate) async fn pcpus(State(crew): State<Crew>) -> Answer<PcpusView> {
    crew.look(|node| Ok(node.pcpus())).await.map(axum::Json)
}

pub(crate) async fn set_pcpus(
    State(crew): State<Crew>,
    Extension(peer): Extension<Peer>,
    Query(query): Query<ChangeQuery>,
    Json(request): Json<PcpusRequest>,
) -> Answer<Change> {
    let change = crew.work(move |node| {
        let pcpus = Some(node.wanted_pcpus(&request.pcpus)?);
        node.change(peer.author(), Wanted { pcpus, ..Wanted::default() }, query.guarded())
    });
    change.await.map(axum::Json)
}

pub(crate) async fn changes(State(crew): State<Crew>) -> Answer<Vec<Change>> {
    crew.look(|node| Ok(node.changes())).await.map(axum::Json)
}

pub(crate) async fn confirm(State(crew): State<Crew>, Path(change): Path<ChangeId>) -> Answer<Change> {
    crew.decide(move |node| node.confirm(change.id)).await.map(axum::Json)
}

pub(crate) async fn revert(State(crew): State<Crew>, Path(change): Path<ChangeId>) -> Answer<Change> {
    crew.decide(move |node| node.revert(change.id)).await.map(axum::Json)
}

pub(crate) async fn frame(State(crew): State<Crew>) -> Answer<Frame> {
    crew.look(|node| Ok(node.frame())).await.map(axum::Json)
}

pub(crate) async fn recording(State(crew): State<Crew>) -> Answer<RecordingView> {
    let none = || Problem::new(Reason::NotFound, "nothing is being recorded");
    crew.look(move |node| node.recording().ok_or_else(none)).await.map(axum::Json)
}

pub(crate) async fn record(
    State(crew): State<Crew>,
    Json(request): Json<RecordingRequest>,
) -> Result<(StatusCode, axum::Json<RecordingView>), Refused> {
    let begun = crew.work(move |node| node.record(&request.name)).await;
    begun.map(|view| (StatusCode::CREATED, axum::Json(view)))
}

pub(crate) async fn end_record(State(crew): State<Crew>) -> Answer<RecordingView> {
    crew.work(|node| node.end_record()).await.map(axum::Json)
}

pub(crate) async fn why(
    State(crew): State<Crew>,
    Path(vcpu): Path<VcpuOf>,
    Query(query): Query<LastQuery>,
) -> Answer<Map<String, Value>> {
    let last = query.last.map_or(LAST, Span::duration);
    let answer = crew.look(move |node| {
        let vm = node.vm(&vcpu.name)?;
        let of_vm = vm.config().vcpus;
        if vcpu.index >= u64::from(of_vm) {
            let none = format!("VM {} has no vCPU {}", vcpu.name, vcpu.index);
            return Err(Problem::new(Reason::NotFound, none).remedy(format!("it has 0 to {}", of_vm - 1)));
        }
        let answer = node.why(&format!("{}/{}", vcpu.name, vcpu.index), last)?;
        let told = serde_json::to_value(&answer).map_err(|e| Problem::of(Reason::Internal, "the answer", &e))?;
        let text = ("text".to_owned(), answer.to_string().into());
        Ok(told.as_object().cloned().into_iter().flatten().chain([text]).collect())
    });
    answer.await.map(axum::Json)
}

pub(crate) async fn trace(State(crew): State<Crew>, Query(query): Query<TraceQuery>) -> Result<Response, Refused> {
    let last = query.last.map_or(LAST, Span::duration);
    let place = crew.place().await?;
    let bytes = crew.look(move |node| {
        let flight = node.flight(last)?;
        let mut bytes = Vec::new();
        let written = match query.format {
            TraceFormat::Chrome => chrome::write(&flight, &mut bytes).map_err(|e| e.to_string()),
            TraceFormat::Recording => flight.write(&mut bytes).map_err(|e| e.to_string()),
        };
        written.map_err(|e| Problem::new(Reason::Internal, format!("the trace cannot be written: {e}")))?;
        Ok(bytes)
    });
    let kind = match query.format {
        TraceFormat::Chrome => "application/json",
        TraceFormat::Recording => "application/octet-stream",
    };
    Ok(([(header::CONTENT_TYPE, HeaderValue::from_static(kind))], large::body(bytes.await?, place)).into_response())
}
