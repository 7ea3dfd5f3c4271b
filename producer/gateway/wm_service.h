/* wm_service.h - the gateway's gRPC services and their messages, as tables (wm_proto.h).  */
#ifndef WM_SERVICE_H
#define WM_SERVICE_H

#include "producer/net/wm_proto.h"

#define WM_SERVICE_INFERENCE "inference.GRPCInferenceService"
#define WM_SERVICE_HEALTH "grpc.health.v1.Health"

extern const wm_proto_field_t wm_message_empty[];
extern const wm_proto_field_t wm_message_live[];          /* "live" */
extern const wm_proto_field_t wm_message_ready[];         /* "ready" */
extern const wm_proto_field_t wm_message_model[];         /* requests: "name", "version" */
extern const wm_proto_field_t wm_message_repository[];    /* requests: "model_name" */
extern const wm_proto_field_t wm_message_index_request[]; /* "ready" */
extern const wm_proto_field_t wm_message_server[];
extern const wm_proto_field_t wm_message_metadata[];
extern const wm_proto_field_t wm_message_config[]; /* "config" */
extern const wm_proto_field_t wm_message_statistics[];
extern const wm_proto_field_t wm_message_index[];       /* "models" */
extern const wm_proto_field_t wm_message_region[];      /* "name", "key", "offset", "byte_size" */
extern const wm_proto_field_t wm_message_cuda_region[]; /* "name", "byte_size" */
extern const wm_proto_field_t wm_message_regions[];     /* "regions" */
extern const wm_proto_field_t wm_message_settings[];    /* requests: "model_name" */
extern const wm_proto_field_t wm_message_trace[];       /* "settings" */
extern const wm_proto_field_t wm_message_log[];         /* "settings" */

/* Those of grpc.health.v1.Health.  */
extern const wm_proto_field_t wm_message_service[]; /* requests: "service" */
extern const wm_proto_field_t wm_message_health[];  /* "status" */
extern const wm_proto_field_t wm_message_healths[]; /* "statuses" */

#endif
