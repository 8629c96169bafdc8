package api

import "time"

// ShortenHealth makes health streams look often, so that no test waits.
func ShortenHealth(s *Server) { s.healthEvery = time.Millisecond }

// StatusToProto is what Status answers with.
var StatusToProto = statusToProto
