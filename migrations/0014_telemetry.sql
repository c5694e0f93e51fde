-- Where a broadcast was asked for, as a W3C traceparent, if that request was sampled: what is done for it later, by other
-- processes, belongs to the same trace. NOT VALID, since every row meets it: the column is new.
ALTER TABLE broadcast
    ADD COLUMN trace_context text,
    ADD CONSTRAINT broadcast_trace_context CHECK (octet_length(trace_context) <= 256) NOT VALID;
