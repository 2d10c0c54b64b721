"""A client of Iceberg REST catalogs whose calls end, and those that fetch its tokens."""

import time

from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.rest.auth import OAuth2AuthManager, OAuth2TokenProvider
from requests import Session

from ticdc_assets.resources.catalog_calls import limit_calls


class LimitedClient(RestCatalog):
    """pyiceberg's client, which itself would wait for an answer without end."""

    def _config_headers(self, session: Session) -> None:
        # What is first done with each: before a token is fetched by it.
        limit_calls(session)
        super()._config_headers(session)

    def _create_session(self) -> Session:
        session = super()._create_session()
        if isinstance(self._auth_manager, OAuth2AuthManager):
            self._auth_manager.token_provider = _Tokens(self._auth_manager.token_provider)
        return session


class _Tokens(OAuth2TokenProvider):
    """The tokens of another provider, whose own request has no time limit and takes none."""

    def __init__(self, other: OAuth2TokenProvider) -> None:
        super().__init__(
            other.client_id,
            other.client_secret,
            other.token_url,
            other.scope,
            other.refresh_margin,
            other.expires_in,
        )

    def _refresh_token(self) -> None:
        content = {"grant_type": "client_credentials"}
        if self.scope:
            content["scope"] = self.scope
        headers = {"Authorization": self._client_secret_header}
        with Session() as session:
            limit_calls(session)
            answer = session.post(self.token_url, data=content, headers=headers)
        answer.raise_for_status()
        stated = answer.json()
        try:
            self._token, seconds = stated["access_token"], stated.get("expires_in", self.expires_in)
        except (KeyError, TypeError):
            raise ValueError("the OAuth server states no access_token") from None
        if seconds is None:
            raise ValueError("the OAuth server states no expires_in, nor does the configuration")
        self._expires_at = time.monotonic() + seconds - self.refresh_margin
