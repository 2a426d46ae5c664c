//! The endpoints, and the OpenAPI document that is made of them.

use crate::answer::{Refused, STATUSES};
use crate::crew::Crew;
use crate::extract::{BODY_MAX, whole_body};
use crate::{handlers, page, peer, stream};
use aide::axum::ApiRouter;
use aide::axum::routing::{delete_with, get_with, patch_with, post_with, put_with};
use aide::openapi::{MediaType, OpenApi, ReferenceOr, Response as Documented, SchemaObject, StatusCode as Status};
use aide::transform::TransformOperation;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::{Router, middleware};
use schemars::{JsonSchema, Schema, json_schema};
use serde_json::{Map, Value};
use std::sync::OnceLock;
use stile_api::{Event, Frame, Problem, Reason};

/// The router of the API.
pub(crate) fn router(crew: Crew) -> Router {
    let mut unused = OpenApi::default();
    let api: Router<Crew> = endpoints().finish_api(&mut unused);
    api.route("/v1/openapi.json", axum::routing::get(page::openapi))
        .fallback(nothing_here)
        .method_not_allowed_fallback(no_such_method)
        .layer(middleware::from_fn(whole_body))
        .layer(middleware::from_fn(peer::check))
        .layer(axum::extract::DefaultBodyLimit::max(BODY_MAX))
        .with_state(crew)
}

async fn nothing_here(uri: Uri) -> Refused {
    Problem::new(Reason::NotFound, format!("there is nothing at {}", uri.path()))
        .remedy("/v1/openapi.json describes what there is")
        .into()
}

async fn no_such_method(method: axum::http::Method, uri: Uri) -> Response {
    let problem = Problem::new(Reason::Invalid, format!("{} takes no {method}", uri.path()))
        .remedy("/v1/openapi.json describes what it takes");
    (StatusCode::METHOD_NOT_ALLOWED, axum::Json(problem)).into_response()
}

/// The OpenAPI document, version 3.1.
pub fn document() -> &'static OpenApi {
    static DOCUMENT: OnceLock<OpenApi> = OnceLock::new();
    DOCUMENT.get_or_init(|| {
        aide::generate::extract_schemas(true);
        let mut document = OpenApi::default();
        let _: Router<Crew> = endpoints().finish_api_with(&mut document, |api| {
            api.title("stile")
                .version(env!("CARGO_PKG_VERSION"))
                .summary("A node of stile: its virtual machines, and how it schedules them.")
                .description(
                    "The API of `stile serve`, over HTTP/1.1 on a unix socket. The user who runs the node, and root, may do \
                     all; whoever else may connect may read.",
                )
        });
        with_problems(&mut document);
        document
    })
}

/// Adds the answers to what is refused, which are the same for all operations.
fn with_problems(document: &mut OpenApi) {
    let schema = aide::generate::in_context(|context| context.schema.subschema_for::<Problem>());
    for path in document.paths.iter_mut().flat_map(|paths| paths.paths.values_mut()) {
        let ReferenceOr::Item(path) = path else { continue };
        let operations = [&mut path.get, &mut path.put, &mut path.post, &mut path.delete, &mut path.patch];
        for operation in operations.into_iter().flatten() {
            let responses = operation.responses.get_or_insert_default();
            for (status, meaning) in STATUSES {
                let json = MediaType {
                    schema: Some(SchemaObject { json_schema: schema.clone(), external_docs: None, example: None }),
                    ..MediaType::default()
                };
                let content = [("application/json".to_owned(), json)].into_iter().collect();
                let response = Documented { description: meaning.to_owned(), content, ..Documented::default() };
                responses.responses.entry(Status::Code(status)).or_insert(ReferenceOr::Item(response));
            }
        }
    }
    let components = document.components.get_or_insert_default();
    components.schemas.values_mut().for_each(|schema| as_enum(&mut schema.json_schema));
    let schemas = aide::generate::in_context(|context| context.schema.take_definitions(true));
    for (name, schema) in schemas {
        if let Ok(json_schema) = schema.try_into() {
            let schema = SchemaObject { json_schema, external_docs: None, example: None };
            components.schemas.entry(name).or_insert(schema);
        }
    }
}

/// A choice of constants as an `enum`: not all generators of clients understand them one by one.
fn as_enum(schema: &mut Schema) {
    let choices = schema.get("oneOf").and_then(Value::as_array);
    let constants: Option<Vec<Value>> =
        choices.and_then(|choices| choices.iter().map(|choice| choice.get("const").cloned()).collect());
    if let Some(constants) = constants.filter(|constants| !constants.is_empty()) {
        schema.remove("oneOf");
        schema.insert("type".to_owned(), "string".into());
        schema.insert("enum".to_owned(), constants.into());
    }
}

fn endpoints() -> ApiRouter<Crew> {
    ApiRouter::new()
        .api_route("/v1", get_with(handlers::node, |op| named(op, "node", "Describe the node.")))
        .api_route(
            "/v1/vms",
            get_with(handlers::list, |op| named(op, "list_vms", "List all VMs, by name.")).post_with(
                handlers::create,
                |op| {
                    named(op, "create_vm", "Create a VM. It does not run yet, unless `start` is set.")
                        .response_with::<201, axum::Json<stile_api::VmInfo>, _>(|r| r.description("It was created."))
                        .response_with::<200, axum::Json<stile_api::VmInfo>, _>(|r| {
                            r.description("It could be created (`dry_run`).")
                        })
                },
            ),
        )
        .api_route(
            "/v1/vms/{name}",
            get_with(handlers::inspect, |op| named(op, "inspect_vm", "Describe a VM in full, with its figures."))
                .merge(delete_with(handlers::delete, |op| {
                    named(op, "delete_vm", "Delete a VM that is stopped.")
                        .response_with::<204, (), _>(|r| r.description("It is gone."))
                })),
        )
        .api_route(
            "/v1/vms/{name}/start",
            post_with(handlers::start, |op| named(op, "start_vm", "Start a VM that is stopped.")),
        )
        .api_route(
            "/v1/vms/{name}/pause",
            post_with(handlers::pause, |op| {
                named(
                    op,
                    "pause_vm",
                    "Pause a VM that runs. When the answer comes, none of its vCPUs is in guest code.",
                )
            }),
        )
        .api_route(
            "/v1/vms/{name}/resume",
            post_with(handlers::resume, |op| named(op, "resume_vm", "Let a paused VM go on.")),
        )
        .api_route(
            "/v1/vms/{name}/stop",
            post_with(handlers::stop, |op| {
                named(op, "stop_vm", "Stop a VM that runs or is paused, and wait for its end.")
            }),
        )
        .api_route(
            "/v1/vms/{name}/scheduling",
            patch_with(handlers::schedule, |op| {
                named(op, "schedule_vm", "Change the nice value, class or cap of a VM, whether it runs or not.")
            }),
        )
        .api_route(
            "/v1/vms/{name}/console",
            get_with(stream::console, |op| {
                bytes(named(op, "read_console", "Read what a guest has printed."), "The text.")
            })
            .merge(post_with(handlers::type_at, |op| {
                named(op, "type_at_console", "Type at the serial port of a Linux guest.")
                    .response_with::<204, (), _>(|r| r.description("The guest has taken it."))
            })),
        )
        .api_route(
            "/v1/vms/{name}/console/follow",
            get_with(stream::follow_console, |op| {
                bytes(
                    named(op, "follow_console", "Read what a guest has printed, and then what it prints."),
                    "The text.",
                )
            }),
        )
        .api_route(
            "/v1/vms/{name}/vcpus/{index}/why",
            get_with(handlers::why, |op| named(op, "why", "Explain the longest wait of a vCPU in the last seconds.")),
        )
        .api_route(
            "/v1/policy",
            get_with(handlers::policy, |op| named(op, "policy", "Tell the policy and all its parameters.")).merge(
                put_with(handlers::set_policy, |op| {
                    named(op, "set_policy", "Change the policy or its parameters. All vCPUs are handed over.")
                }),
            ),
        )
        .api_route(
            "/v1/pcpus",
            get_with(handlers::pcpus, |op| named(op, "pcpus", "Tell the host CPUs that vCPUs run on.")).merge(
                put_with(handlers::set_pcpus, |op| {
                    named(op, "set_pcpus", "Change the host CPUs. Those given up are free when the answer comes.")
                }),
            ),
        )
        .api_route(
            "/v1/changes",
            get_with(handlers::changes, |op| named(op, "changes", "List the changes of scheduling.")),
        )
        .api_route(
            "/v1/changes/{id}/confirm",
            post_with(handlers::confirm, |op| named(op, "confirm_change", "Keep a change that waits to be confirmed.")),
        )
        .api_route(
            "/v1/changes/{id}/revert",
            post_with(handlers::revert, |op| {
                named(op, "revert_change", "Take a change back that waits to be confirmed.")
            }),
        )
        .api_route("/v1/frame", get_with(handlers::frame, |op| named(op, "frame", "Tell all figures since the start.")))
        .api_route(
            "/v1/frames",
            get_with(stream::frames, |op| {
                events::<Frame>(
                    named(op, "frames", "Send the figures of each interval, as server-sent events."),
                    "frame",
                )
            }),
        )
        .api_route(
            "/v1/events",
            get_with(stream::events, |op| {
                events::<Event>(named(op, "events", "Send what happens, as server-sent events."), "event")
            }),
        )
        .api_route(
            "/v1/recording",
            get_with(handlers::recording, |op| named(op, "recording", "Tell the recording under way."))
                .merge(post_with(handlers::record, |op| {
                    named(op, "record", "Record all decisions from now on.")
                        .response_with::<201, axum::Json<stile_api::RecordingView>, _>(|r| {
                            r.description("It has begun.")
                        })
                }))
                .merge(delete_with(handlers::end_record, |op| {
                    named(op, "end_recording", "End the recording under way.")
                })),
        )
        .api_route(
            "/v1/trace",
            get_with(handlers::trace, |op| {
                let op = named(op, "trace", "The decisions of the last seconds, as far as they are kept.");
                let op = op.response_with::<200, axum::Json<Map<String, Value>>, _>(|r| r.description("The trace."));
                bytes(op, "The trace.")
            }),
        )
        .api_route(
            "/v1/metrics",
            get_with(page::metrics, |op| {
                let kind = "application/openmetrics-text";
                text(named(op, "metrics", "All figures in the format of OpenMetrics."), kind, "The metrics.")
            }),
        )
}

fn named<'t>(op: TransformOperation<'t>, id: &str, summary: &str) -> TransformOperation<'t> {
    op.id(id).summary(summary)
}

fn bytes<'t>(op: TransformOperation<'t>, what: &str) -> TransformOperation<'t> {
    text(op, "application/octet-stream", what)
}

/// An answer of this kind of text.
fn text<'t>(mut op: TransformOperation<'t>, kind: &str, what: &str) -> TransformOperation<'t> {
    let schema = json_schema!({ "type": "string" });
    answered(&mut op, kind, what, schema);
    op
}

/// An answer of server-sent events of this name, with data of this type.
fn events<'t, T: JsonSchema>(mut op: TransformOperation<'t>, name: &str) -> TransformOperation<'t> {
    let data = T::schema_name();
    let what = format!("Events of the name `{name}`, the data of each a {data} as JSON.");
    let schema = json_schema!({
        "type": "object",
        "properties": {
            "event": { "const": name },
            "data": { "type": "string", "contentMediaType": "application/json" },
        },
        "required": ["data"],
    });
    answered(&mut op, "text/event-stream", &what, schema);
    op
}

fn answered(op: &mut TransformOperation<'_>, kind: &str, what: &str, json_schema: schemars::Schema) {
    let media = MediaType {
        schema: Some(SchemaObject { json_schema, external_docs: None, example: None }),
        ..MediaType::default()
    };
    let responses = op.inner_mut().responses.get_or_insert_default();
    let response = responses
        .responses
        .entry(Status::Code(200))
        .or_insert_with(|| ReferenceOr::Item(Documented { description: what.to_owned(), ..Documented::default() }));
    if let ReferenceOr::Item(response) = response {
        response.content.insert(kind.to_owned(), media);
    }
}
