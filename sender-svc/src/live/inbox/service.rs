//! `InboxService`, for apps that speak gRPC.

use bongsu_proto::v1::inbox_service_server::InboxService;
use bongsu_proto::v1::{ListInboxRequest, ListInboxResponse, MarkReadRequest, MarkReadResponse};
use tonic::{Request, Response, Status};

use super::super::notification::to_proto;
use super::page::Wanted;
use super::read::Read;
use super::{Inbox, user};

#[tonic::async_trait]
impl InboxService for Inbox {
    async fn list_inbox(
        &self,
        request: Request<ListInboxRequest>,
    ) -> Result<Response<ListInboxResponse>, Status> {
        let user = user(request.extensions())?;
        let ListInboxRequest { page_size, page_token, unread_only } = request.into_inner();
        let wanted = Wanted { page_size, page_token, unread_only };
        let page = self.list(&user, wanted, Default::default()).await?;
        let notifications =
            page.notifications.iter().map(|(id, event, content)| to_proto(*id, event, content));
        Ok(Response::new(ListInboxResponse {
            notifications: notifications.collect(),
            next_page_token: page.next_page_token,
            unread_count: page.unread_count,
        }))
    }

    async fn mark_read(
        &self,
        request: Request<MarkReadRequest>,
    ) -> Result<Response<MarkReadResponse>, Status> {
        let user = user(request.extensions())?;
        let request = request.get_ref();
        let read = Read::parse(&request.notification_ids, &request.up_to_event_id, |id| Some(*id));
        Ok(Response::new(MarkReadResponse { unread_count: self.mark(&user, read).await? }))
    }
}
