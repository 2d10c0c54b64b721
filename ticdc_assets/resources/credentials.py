"""Credentials that a sink URI names and does not hold: an AWS profile, Google's key file.

`pyarrow` takes both from the environment only, which all changefeeds of a process share.  So they
become keys and tokens here, and each folder gets its own.
"""

import json
import time
import urllib.request
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

from ticdc_assets.safe_text import remember_secret

_GOOGLE_SCOPE = "https://www.googleapis.com/auth/devstorage.read_only"
_GOOGLE_TOKENS = "https://oauth2.googleapis.com/token"
_GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
# In seconds.
_TOKEN_LIFETIME = 3600
_TIMEOUT = 30


class AwsKeys(NamedTuple):
    """An AWS access key, with the session that it belongs to, if any."""

    access_key: str
    secret_key: str
    session_token: str | None


class GoogleToken(NamedTuple):
    """An access token of Google's, and when it expires."""

    text: str
    expires_at: datetime


def read_aws_profile(options: Mapping[str, str]) -> AwsKeys:
    """Return the keys of the profile that a sink URI names, or of the role that it assumes.

    Raise a ValueError that quotes no key.
    """
    # Importing it takes half a second.
    from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]
    from botocore.session import Session  # type: ignore[import-untyped]

    session = Session(profile=options["profile"])
    try:
        found = session.get_credentials()
        if found is None:
            raise ValueError("the AWS profile that it names has no credentials on this machine")
        keys = AwsKeys(*found.get_frozen_credentials()[:3])
        if "role-arn" in options:
            keys = _assume_role(session.create_client("sts", options.get("region")), options)
    except (BotoCoreError, ClientError) as error:
        reason = f"the AWS profile that it names cannot be used here ({type(error).__name__})"
        raise ValueError(reason) from None
    for key in filter(None, keys):
        remember_secret(key)
    return keys


def _assume_role(client: Any, options: Mapping[str, str]) -> AwsKeys:
    request = {"RoleArn": options["role-arn"], "RoleSessionName": "ticdc-assets"}
    if "external-id" in options:
        request["ExternalId"] = options["external-id"]
    given = client.assume_role(**request)["Credentials"]
    return AwsKeys(given["AccessKeyId"], given["SecretAccessKey"], given["SessionToken"])


def fetch_google_token(key_file: Path) -> GoogleToken:
    """Exchange the key of a service account for a token, as RFC 7523 describes.

    Raise a ValueError that quotes nothing of the key.
    """
    # Importing its cryptography takes a while, and only this needs it.
    import jwt

    try:
        key = json.loads(key_file.read_bytes())
        account, private_key = key["client_email"], key["private_key"]
        address = key.get("token_uri", _GOOGLE_TOKENS)
        now = int(time.time())
        claims = {"iss": account, "scope": _GOOGLE_SCOPE, "aud": address, "iat": now}
        claims["exp"] = now + _TOKEN_LIFETIME
        assertion = jwt.encode(claims, private_key, "RS256")
    except OSError as error:
        raise ValueError(f"its credentials-file cannot be read here: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError, jwt.PyJWTError):
        reason = "its credentials-file is not the key of a service account: remove it, and name"
        raise ValueError(f"{reason} credentials of another kind in the environment") from None
    form = urlencode({"grant_type": _GRANT, "assertion": assertion}).encode()
    try:
        with urllib.request.urlopen(address, form, timeout=_TIMEOUT) as answer:
            granted = json.load(answer)
        token = GoogleToken(
            granted["access_token"],
            datetime.now(UTC) + timedelta(seconds=int(granted.get("expires_in", _TOKEN_LIFETIME))),
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = f"Google grants no token for its credentials-file ({type(error).__name__})"
        raise ValueError(reason) from None
    remember_secret(token.text)
    return token
