DELETE FROM live_presence WHERE user_no = ANY($2::bigint[]) AND sender_id = $1
