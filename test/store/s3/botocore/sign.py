# Signs requests with botocore, the library of the AWS CLI (Debian: python3-botocore). Reads {"at", "region", "keys", "requests"}
# as JSON, and prints one signature for each request. Of a request it takes only what is asked (operation and parameters), the
# headers that are signed and the body: method, path, query, escaping, host, hash and session token are botocore's own.
import base64
import json
import sys
from urllib.parse import urlsplit, urlunsplit

import botocore.session
from botocore.auth import S3SigV4Auth, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials

# What botocore adds itself.
OWN = {'host', 'x-amz-content-sha256', 'x-amz-security-token', 'x-amz-copy-source'}


class Captured(Exception):
    pass


def sent_by_client(client, request):
    """What its client would send."""
    caught = []

    def catch(request, **_):
        caught.append(request)
        raise Captured

    client.meta.events.register('before-send.s3', catch)
    params = dict(request['params'])
    if 'Body' in params:
        params['Body'] = b''
    try:
        getattr(client, request['operation'])(**params)
    except Captured:
        pass
    client.meta.events.unregister('before-send.s3', catch)
    return caught[0]


def with_slash(url):
    """Of a bucket alone botocore leaves the slash behind it out: /lab?list-type=2 asks what /lab/?list-type=2 asks."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(path=f'{parts.path}/')) if parts.path.count('/') == 1 else url


def text(value):
    return value.decode() if isinstance(value, bytes) else value


def signature(asked, client, request):
    keys = asked['keys'][request['keys']]
    credentials = Credentials(keys['accessKeyId'], keys['secretAccessKey'], keys.get('sessionToken'))
    headers = {name: value for name, value in request['headers'].items() if name not in OWN}
    body = base64.b64decode(request['body'])
    if request['operation'] == 'sts':
        auth = SigV4Auth(credentials, 'sts', asked['region'])
        signed = AWSRequest(method=request['method'], url=request['url'], headers=request['headers'], data=body)
        del signed.headers['x-amz-content-sha256']
        signed.headers['x-amz-content-sha256'] = auth.payload(signed)
    else:
        sent = sent_by_client(client, request)
        if 'x-amz-copy-source' in sent.headers:
            headers['x-amz-copy-source'] = text(sent.headers['x-amz-copy-source'])
        auth = S3SigV4Auth(credentials, 's3', asked['region'])
        signed = AWSRequest(method=sent.method, url=with_slash(sent.url), headers=headers, data=body)
        signed.headers['x-amz-content-sha256'] = auth.payload(signed)
        if credentials.token is not None:
            signed.headers['x-amz-security-token'] = credentials.token
    signed.context['timestamp'] = asked['at']
    return auth.signature(auth.string_to_sign(signed, auth.canonical_request(signed)), signed)


asked = json.load(sys.stdin)
client = botocore.session.Session().create_client(
    's3',
    region_name=asked['region'],
    endpoint_url=asked['endpoint'],
    aws_access_key_id='any',
    aws_secret_access_key='any',
    config=Config(s3={'addressing_style': 'path'}, retries={'max_attempts': 0}),
)
json.dump([signature(asked, client, request) for request in asked['requests']], sys.stdout)
